import { createHash, randomBytes } from 'node:crypto'

/**
 * What people and programs show at the door. Its beginning says what it is, so that those who find one in a log or in a
 * repository, and the scanners that look for them, know what was found. `redact.ts` knows it, too.
 */
const BEGINNINGS = { token: 'rdr_', session: 'rdrs_', link: 'rdrl_' } as const
const RANDOM_BYTES = 32
const SHAPE = /^rdr[sl]?_[\w-]{43}$/

export type SecretKind = keyof typeof BEGINNINGS

export function makeSecret(kind: SecretKind): string {
  return BEGINNINGS[kind] + randomBytes(RANDOM_BYTES).toString('base64url')
}

/** Whether it can be one of ours: what cannot need not be looked for. */
export const isSecret = (text: string): boolean => SHAPE.test(text)

/** No salt and nothing slow: 32 random bytes cannot be guessed, and every request looks a secret up by its hash. */
export const hashOf = (secret: string): string => createHash('sha256').update(secret).digest('hex')
