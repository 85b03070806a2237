import { createHmac } from 'node:crypto'
import { RedressError } from '../core/errors.ts'

/** Signatures as the Standard Webhooks specification (1.0.0) has them, symmetric. */

const PREFIX = 'whsec_'
const BYTES_MIN = 24
const BYTES_MAX = 64
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/

/** The key in a secret. What is wrong is said without the secret. */
export function keyOf(secret: unknown): Buffer {
  const text = typeof secret === 'string' && secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : ''
  const key = BASE64.test(text) ? Buffer.from(text, 'base64') : Buffer.alloc(0)
  if (key.length >= BYTES_MIN && key.length <= BYTES_MAX) return key
  throw new RedressError(
    'OPTION_INVALID',
    `webhook: a secret must be '${PREFIX}' and the base64 of ${BYTES_MIN} to ${BYTES_MAX} random bytes.`,
    { action: `Make one: node -p "'${PREFIX}' + crypto.randomBytes(32).toString('base64')"` },
  )
}

/** One signature for each key, so that a receiver may know the old secret or the new one. */
export function sign(keys: readonly Buffer[], id: string, timestamp: number, body: string): string {
  const content = `${id}.${timestamp}.${body}`
  return keys.map((key) => `v1,${createHmac('sha256', key).update(content).digest('base64')}`).join(' ')
}
