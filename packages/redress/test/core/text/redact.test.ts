import fc from 'fast-check'
import { expect, test } from 'vitest'
import { redactText, redactValue } from '../../../src/core/text/redact.ts'

test.each([
  ['a login in a URL', 'GET https://bob:hunter2@host/a failed', 'GET https://[redacted]@host/a failed'],
  ['a user alone in a URL', 'https://ghp@host/', 'https://[redacted]@host/'],
  ['a connection string', 'postgres://u:p@db:5432/x', 'postgres://[redacted]@db:5432/x'],
  ['a password with @ in it', 'amqp://u:p@ss@db/@x', 'amqp://[redacted]@db/@x'],
  ['a password with / in it', 'amqp://u:pa/ss@db/x', 'amqp://[redacted]@db/x'],
  ['a proxy without a scheme', 'proxy bob:pw1@10.0.0.1:8080 refused', 'proxy [redacted]@10.0.0.1:8080 refused'],
  ['a query value', '/x?token=abc&page=2', '/x?token=[redacted]&page=2'],
  ['a key in a query', '/maps?key=abc123', '/maps?key=[redacted]'],
  ['an OAuth code in a query', '/cb?code=4/0AX&state=1', '/cb?code=[redacted]&state=1'],
  ['an OAuth fragment', '/cb#access_token=abc', '/cb#access_token=[redacted]'],
  [
    'a signed S3 URL',
    '?X-Amz-Credential=AK/2026&X-Amz-Date=1&X-Amz-Security-Token=t&X-Amz-Signature=99',
    '?X-Amz-Credential=[redacted]&X-Amz-Date=1&X-Amz-Security-Token=[redacted]&X-Amz-Signature=[redacted]',
  ],
  ['a signed Azure URL', '?sv=2022-11-02&sr=b&sig=a%2Bb', '?sv=[redacted]&sr=b&sig=[redacted]'],
  ['a bearer header', 'Authorization: Bearer abc.def\nHost: x', 'Authorization: [redacted]\nHost: x'],
  ['a digest header', 'authorization: Digest u="a", r="b"', 'authorization: [redacted]'],
  ['a bearer token alone', 'sent Bearer abcdef123456 twice', 'sent Bearer [redacted] twice'],
  ['cookies', 'Set-Cookie: sid=1; b=2\nCookie: c=3; d=4', 'Set-Cookie: [redacted]\nCookie: [redacted]'],
  ['a DSN', 'Server=x;Password=p4ss;Database=d', 'Server=x;Password=[redacted];Database=d'],
  [
    'an environment',
    'DB_PASSWORD=x AWS_SECRET_ACCESS_KEY=y',
    'DB_PASSWORD=[redacted] AWS_SECRET_ACCESS_KEY=[redacted]',
  ],
  ['JSON text', '{"password":"a\\"b","n":1}', '{"password":"[redacted]","n":1}'],
  ['JSON in JSON', '"{\\"apiKey\\":\\"abc\\",\\"n\\":1}"', '"{\\"apiKey\\":\\"[redacted]\\",\\"n\\":1}"'],
  ['an object printed as text', "{ token: { a: 'b', c: [1] }, n: 1 }", '{ token: [redacted], n: 1 }'],
  ['a private key', 'x\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\ny', 'x\n[redacted]\ny'],
  ['a private key that was cut', '-----BEGIN PRIVATE KEY-----\nMIIE', '[redacted]'],
  [
    'a command line',
    'failed: x --api-key abc -u bob:pw --token "t" in',
    'failed: x --api-key [redacted] -u [redacted] --token "[redacted]" in',
  ],
  ['a coloured password', '\u001b[31mpassword\u001b[0m=abc', 'password=[redacted]'],
])('redacts %s', (_, text, safe) => {
  expect(redactText(text)).toBe(safe)
})

test.each([
  ['a JSON web token', 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl'],
  ['a GitHub token', 'ghp_0123456789abcdefghijABCDEFGHIJ012345'],
  ['a fine-grained GitHub token', 'github_pat_11ABCDEFG0123456789_abcdefghij'],
  ['a Slack token', 'xoxb-123456789012-abcdefGHIJ'],
  ['an API key', 'sk-proj-abcdefgh0123456789'],
  ['a payment key', 'sk_live_abcdefgh01234567'],
  ['an AWS key id', 'AKIAIOSFODNN7EXAMPLE'],
  ['an npm token', 'npm_abcdefghijklmnopqrstuvwxyz0123456789'],
  ['a token of ours', 'rdr_mNl3AzQNyUYzuT1-rT2Lbxsx-tPc_GBIfiG2QlWyNmQ'],
  ['a session of ours', 'rdrs_mNl3AzQNyUYzuT1-rT2Lbxsx-tPc_GBIfiG2QlWyNmQ'],
  ['a sign-in link of ours', 'rdrl_mNl3AzQNyUYzuT1-rT2Lbxsx-tPc_GBIfiG2QlWyNmQ'],
])('knows %s by its shape', (_, token) => {
  expect(redactText(`refused (${token}) by the server`)).toBe('refused ([redacted]) by the server')
})

test.each([
  'https://packages.example/@types/node and http://host:8080/@scope/x',
  'mail to bob@example.com at 12:30',
  '?monkey=1&keyboard=qwerty&turkey=2',
  'tokenizer: "bpe", max_tokens: 4096, token_id=7, token_type: x',
  'duplicate key: orders/1.pdf, key=uploads/a.pdf, primaryKey: 3',
  `SyntaxError: Unexpected token ':', "{a::1}" is not valid JSON`,
  'auth: connection refused; session: gone',
  'Basic authentication failed',
  'pass=2 of 2, frame= 12, bypass=true, compass: north',
  'at token (file:///app/src/auth/session-token.ts:12:5)',
  'secretName: prod/db, passwordPolicy: strict, author: "Ann"',
  'design: x, signal: SIGKILL, code: 137, exit code=1',
  'risk-assessment-2026-final-report-v12, task-0123456789abcdef0123',
  'Error: key "a" not found',
  'failed: ffmpeg -y -i in.mp4 --token-file /run/x --no-password --verbose -u 1',
])('leaves readable: %s', (text) => {
  expect(redactText(text)).toBe(text)
})

const secret = fc.stringMatching(/^[A-Za-z0-9]{24,40}$/)
const prose = fc.stringMatching(/^[a-z ,.()\n]{0,40}$/)
const places = fc.constantFrom<(planted: string) => string>(
  (s) => `https://user:${s}@example.com/x`,
  (s) => `mysql://${s}:x@db/x`,
  (s) => `?a=1&access_token=${s}&b=2`,
  (s) => `?API_KEY=${s}`,
  (s) => `Authorization: Bearer ${s}`,
  (s) => `bearer ${s}`,
  (s) => `cookie: a=1; sid=${s}; b=2`,
  (s) => `x-api-key: ${s}`,
  (s) => `Pwd=${s};`,
  (s) => JSON.stringify({ clientSecret: s }),
  (s) => JSON.stringify(JSON.stringify({ nested: { refresh_token: s } })),
  (s) => `ghp_${s}`,
  (s) => `eyJ${s}.eyJ${s}.${s}`,
  (s) => `-----BEGIN EC PRIVATE KEY-----\n${s}\n-----END EC PRIVATE KEY-----`,
)

test('a planted secret never survives, wherever it stands in a text', () => {
  fc.assert(
    fc.property(secret, prose, places, prose, (planted, before, place, after) => {
      const safe = redactText(`${before} ${place(planted)} ${after}`)
      expect(safe).not.toContain(planted)
      expect(safe).toContain('[redacted]')
      // What is safe already is left as it is.
      expect(redactText(safe)).toBe(safe)
    }),
    { numRuns: 2000 },
  )
})

test('a planted secret never survives inside a value', () => {
  const keys = fc.constantFrom('password', 'authorization', 'Set-Cookie', 'x-api-key', 'dbPass', 'auth', 'accessKey')
  fc.assert(
    fc.property(secret, keys, fc.jsonValue({ maxDepth: 2 }), places, (planted, key, other, place) => {
      const held = {
        other,
        list: [{ [key]: [planted] }],
        map: new Map([[key, { deep: planted }]]),
        text: place(planted),
      }
      expect(JSON.stringify(redactValue(held))).not.toContain(planted)
      expect(JSON.stringify(redactValue(Object.assign(new Error(place(planted)), held)))).not.toContain(planted)
    }),
    { numRuns: 1000 },
  )
})

test('hostile text costs time in proportion to its length', () => {
  for (const unit of ['eyJ-', 'sk-', 'key', '://a:b', 'a:b@', 'token=[', '"secret":"\\"', '-----BEGIN ', 'Bearer ']) {
    const started = performance.now()
    redactText(unit.repeat(16_000 / unit.length))
    expect(performance.now() - started, unit).toBeLessThan(500)
  }
})

test('redaction never throws, never changes its input, and gives what JSON and PostgreSQL can hold', () => {
  const anything = fc.anything({ withBigInt: true, withDate: true, withMap: true, withSet: true, withTypedArray: true })
  fc.assert(
    fc.property(anything, (value) => {
      const before = fc.stringify(value)
      const text = JSON.stringify(redactValue(value))
      expect(fc.stringify(value)).toBe(before)
      expect(text.isWellFormed()).toBe(true)
      expect(text).not.toContain('\\u0000')
      expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(redactValue(JSON.parse(text)))))
    }),
    { numRuns: 2000 },
  )
})

test('what JSON cannot hold is named in brackets', () => {
  const cyclic: Record<string, unknown> = { n: 1 }
  cyclic.self = cyclic
  const hostile = {
    get bad() {
      throw new Error('no')
    },
  }
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  expect(
    redactValue({
      cyclic,
      hostile,
      proxy,
      map: new Map<unknown, unknown>([
        ['a', 1],
        [{}, 2],
      ]),
      set: new Set([1, 2]),
      bytes: new Uint8Array(32),
      buffer: Buffer.from('abc'),
      big: 12n,
      nan: Number.NaN,
      when: new Date(0),
      url: new URL('https://u:p@h/x'),
      fn: () => 1,
      symbol: Symbol('x'),
      nothing: undefined,
      holes: [undefined, null],
      nul: 'a\0b',
      ['__proto__']: 1,
    }),
  ).toEqual({
    cyclic: { n: 1, self: '[circular]' },
    hostile: { bad: '[unreadable]' },
    proxy: '[unreadable]',
    map: { a: 1, '[object]': 2 },
    set: [1, 2],
    bytes: '[32 bytes]',
    buffer: '[3 bytes]',
    big: '12',
    nan: 'NaN',
    when: '1970-01-01T00:00:00.000Z',
    url: 'https://[redacted]@h/x',
    fn: '[function]',
    symbol: '[symbol]',
    holes: [null, null],
    nul: 'a\ufffdb',
    ['__proto__']: 1,
  })
})

test('numbers that count and flags stay, secrets that are numbers do not', () => {
  expect(
    redactValue({ prompt_tokens: 812, pass: 2, password: null, token: false, pin_token: 1234, tokens: ['a'] }),
  ).toEqual({
    prompt_tokens: 812,
    pass: 2,
    password: null,
    token: false,
    pin_token: '[redacted]',
    tokens: '[redacted]',
  })
})

test('a value is bounded in depth, keys, items, text and in all', () => {
  let deep: unknown = 'bottom'
  for (let i = 0; i < 20; i++) deep = { deep }
  expect(JSON.stringify(redactValue(deep))).toContain('[too deep]')
  expect(redactValue(Array(300).fill(1))).toHaveLength(201)
  const wide = Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`field${i}`, 1]))
  expect(Object.keys(redactValue(wide) as object)).toHaveLength(201)
  expect(redactValue('x'.repeat(9000))).toHaveLength(4000)
  const huge = Array.from({ length: 100 }, () => ({ text: 'y'.repeat(3000) }))
  expect(JSON.stringify(redactValue(huge)).length).toBeLessThan(18_000)
  expect(redactValue({ a: { b: 1 } }, { depthMax: 1 })).toEqual({ a: '[too deep]' })
})

test('a secret at the place where text is cut does not survive in part', () => {
  for (let room = 3950; room < 4050; room++) {
    const safe = redactValue(`${'x'.repeat(room)} https://user:hunter2@host/`) as string
    expect(safe).not.toContain('hunt')
  }
})
