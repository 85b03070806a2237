import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto'
import { linkSync, mkdirSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { RedressError } from 'redress'

const CHARS_MIN = 32

interface SecretUse {
  /** 'the key that signs sessions' */
  what: string
  /** The variable that gives it instead. */
  knob: string
  /** What it would mean to go on with another one. */
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
    // Of several processes that begin at once, one names the secret; and nobody reads half of it.
    linkSync(own, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    unlinkSync(own)
  }
  return readFileSync(path, 'utf8').trim()
}

/** Encrypts texts so that only a process with the secret can read them. */
export interface Sealer {
  /** `about` names the context of the text: it can be decrypted only with the same context. */
  seal(text: string, about: string): string
  /** Null if the text was encrypted with another secret, is not an encrypted text, or was changed. */
  open(sealed: string, about: string): string | null
  /** A keyed hash: equal for equal texts, and useless for guessing without the secret. */
  digest(text: string): string
}

const CIPHER = 'aes-256-gcm'
const SEALED = 'sealed:1:'
const IV_BYTES = 12
const TAG_BYTES = 16

export const isSealed = (text: string): boolean => text.startsWith(SEALED)

/** One secret to keep, and separate keys for each purpose. */
export function openSealer(secret: string, purpose: string): Sealer {
  const keyFor = (use: string) => createHmac('sha256', secret).update(`${purpose} ${use}`).digest()
  const [sealKey, digestKey] = [keyFor('sealing'), keyFor('digests')]
  return {
    seal(text, about) {
      const iv = randomBytes(IV_BYTES)
      const cipher = createCipheriv(CIPHER, sealKey, iv).setAAD(Buffer.from(about))
      const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
      return SEALED + Buffer.concat([iv, cipher.getAuthTag(), body]).toString('base64url')
    },
    open(sealed, about) {
      const bytes = Buffer.from(sealed.slice(SEALED.length), 'base64url')
      if (!isSealed(sealed) || bytes.byteLength < IV_BYTES + TAG_BYTES) return null
      const [iv, tag] = [bytes.subarray(0, IV_BYTES), bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES)]
      const decipher = createDecipheriv(CIPHER, sealKey, iv, { authTagLength: TAG_BYTES })
      decipher.setAAD(Buffer.from(about)).setAuthTag(tag)
      try {
        return decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES), undefined, 'utf8') + decipher.final('utf8')
      } catch {
        return null
      }
    },
    digest: (text) => createHmac('sha256', digestKey).update(text).digest('hex'),
  }
}
