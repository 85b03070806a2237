import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto'

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
