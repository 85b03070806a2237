import { randomBytes } from 'node:crypto'
import { linkSync, mkdirSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { RedressError } from 'redress'

const CHARS_MIN = 32

interface SecretUse {
  /** 'the key that signs sessions' */
  what: string
  /** The variable that gives it instead. */
  knob: string
  /** The consequence of using another secret. */
  loss: string
}

/** Made once and kept in a folder of the app's own. Processes on other machines must be given the same one. */
export function secretIn(folder: string, fileName: string, use: SecretUse): string {
  const path = join(folder, fileName)
  try {
    const secret = keptIn(folder, path)
    if (secret.length >= CHARS_MIN) return secret
  } catch (cause) {
    const why = (cause as NodeJS.ErrnoException).code ?? 'for an unknown reason'
    throw unusable(path, `cannot be read (${why})`, use, cause)
  }
  throw unusable(path, 'is too short', use)
}

function unusable(path: string, why: string, { what, knob, loss }: SecretUse, cause?: unknown): RedressError {
  const action = `Let the server read it, remove it, or set ${knob}. ${loss}`
  return new RedressError('OPTION_INVALID', `${path}, ${what}, ${why}.`, { action, cause })
}

function keptIn(folder: string, path: string): string {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const own = `${path}.${randomBytes(8).toString('hex')}`
  writeFileSync(own, randomBytes(32).toString('hex'), { mode: 0o600 })
  try {
    // If several processes start at once, one of them names the secret, and none reads a half-written one.
    linkSync(own, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    unlinkSync(own)
  }
  return readFileSync(path, 'utf8').trim()
}
