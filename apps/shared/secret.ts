import { randomBytes } from 'node:crypto'
import { linkSync, mkdirSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const CHARS_MIN = 32

/** Made once and kept in a folder of the app's own. Processes on other machines must be given the same one. */
export function secretIn(folder: string, fileName: string): string {
  const path = join(folder, fileName)
  mkdirSync(folder, { recursive: true })
  const own = `${path}.${randomBytes(8).toString('hex')}`
  writeFileSync(own, randomBytes(32).toString('hex'), { mode: 0o600 })
  try {
    // Of several processes that begin at once, one names the secret; and nobody reads half of it.
    linkSync(own, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    unlinkSync(own)
  }
  const secret = readFileSync(path, 'utf8').trim()
  if (secret.length >= CHARS_MIN) return secret
  throw new Error(`the secret in ${fileName} is too short: put back what was in it`)
}
