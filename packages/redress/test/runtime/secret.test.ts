import { expect, test } from 'vitest'
import { redactText } from '../../src/core/text/redact.ts'
import { hashOf, isSecret, makeSecret } from '../../src/runtime/secret.ts'

const KINDS = [
  ['token', 'rdr_'],
  ['session', 'rdrs_'],
  ['link', 'rdrl_'],
] as const

test.each(KINDS)(
  'a %s begins with %s, for those who look for leaked secrets, and has 256 random bits',
  (kind, begins) => {
    const secrets = Array.from({ length: 100 }, () => makeSecret(kind))
    expect(new Set(secrets).size).toBe(100)
    for (const secret of secrets) {
      expect(secret.startsWith(begins)).toBe(true)
      expect(Buffer.from(secret.slice(begins.length), 'base64url')).toHaveLength(32)
      expect(isSecret(secret)).toBe(true)
    }
  },
)

test.each(KINDS)('a %s that got into a message is taken out of it before it is stored', (kind) => {
  for (let i = 0; i < 100; i++) {
    const secret = makeSecret(kind)
    expect(redactText(`GET /sign-in?x=${secret} (${secret}) refused`)).toBe(
      'GET /sign-in?x=[redacted] ([redacted]) refused',
    )
  }
})

test('a text without the form of a secret is not recognized as one', () => {
  for (const text of [
    '',
    'rdr_',
    'rdr_short',
    `rdrx_${'a'.repeat(43)}`,
    `rdr_${'a'.repeat(44)}`,
    `x rdr_${'a'.repeat(43)}`,
  ]) {
    expect(isSecret(text), text).toBe(false)
  }
})

test('a secret is kept as its SHA-256', () => {
  expect(hashOf('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
})
