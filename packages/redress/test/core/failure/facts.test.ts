import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { promisify } from 'node:util'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { RedressError } from '../../../src/core/errors.ts'
import { AttemptFailed, AttemptTimeout, TotalTimeout } from '../../../src/core/failure/attempt-failed.ts'
import { causesOf, chainOf, describe, type Facts, factsOf, retryAfterMs } from '../../../src/core/failure/facts.ts'
import { hostile } from './hostile.ts'

const facts = (thrown: unknown): Facts => factsOf(thrown, 'execution')
const error = (props: object, message = 'failed') => Object.assign(new Error(message), props)

test.each(hostile)('%s can be thrown and still be described', (_, thrown) => {
  expect(facts(thrown).phase).toBe('execution')
  expect(describe(thrown)).not.toBe('')
  expect(causesOf(thrown).length).toBeLessThan(8)
})

test('any value can be thrown and still be described', () => {
  const keys = [
    'name',
    'message',
    'stack',
    'cause',
    'errors',
    'code',
    'status',
    'signal',
    'stderr',
    'response',
    'retryAfter',
  ]
  const anyRecord = fc.dictionary(fc.constantFrom(...keys), fc.anything())
  fc.assert(
    fc.property(fc.oneof(fc.anything(), anyRecord), fc.boolean(), (value, inError) => {
      const thrown = inError && typeof value === 'object' ? Object.assign(new Error('x'), value) : value
      expect(facts(thrown).message.length).toBeLessThanOrEqual(2000)
      expect(describe(thrown).length).toBeLessThanOrEqual(4000)
      causesOf(thrown)
    }),
    { numRuns: 3000 },
  )
})

test('what is not an error is described in a sentence', () => {
  expect(describe('boom')).toBe('the handler threw a string: "boom"')
  expect(describe(null)).toBe('the handler threw null')
  expect(describe(undefined)).toBe('the handler threw undefined')
  expect(describe(42)).toBe('the handler threw a number: 42')
  expect(describe(Symbol('s'))).toBe('the handler threw a symbol: Symbol(s)')
  expect(describe({ a: 1, password: 'x' })).toBe('the handler threw an object: {"a":1,"password":"[redacted]"}')
})

test('the stack is kept, bounded to 20 frames and 4000 characters, with the current message first [P27]', () => {
  const renamed = error({ name: 'ConvertError' }, 'first words')
  renamed.message = 'later words'
  expect(describe(renamed)).toMatch(/^ConvertError: later words\n {4}at /)
  const limit = Error.stackTraceLimit
  Error.stackTraceLimit = 100
  const dig = (depth: number): Error => (depth === 0 ? new Error('deep') : dig(depth - 1))
  const deep = dig(80)
  Error.stackTraceLimit = limit
  expect(describe(deep).split('\n    at ').length - 1).toBeLessThanOrEqual(20)
  expect(describe(new Error('m'.repeat(1e6)))).toMatch(/^Error: m+…\n {4}at /)
  expect(describe(new Error('see https://u:p@host/'))).toContain('https://[redacted]@host/')
})

test('a class that forgot to set its name is known by its constructor', () => {
  class ConvertError extends Error {}
  expect(facts(new ConvertError('x')).name).toBe('ConvertError')
  expect(facts(new TypeError('x')).name).toBe('TypeError')
})

test('the exit code and stderr of a program are recorded as facts [P24 P25]', async () => {
  const run = promisify(execFile)
  const failed = await run(process.execPath, ['-e', 'console.error("moov atom not found");process.exit(7)']).catch(
    (e) => e,
  )
  expect(facts(failed)).toMatchObject({
    exitCode: 7,
    signal: null,
    stderrTail: 'moov atom not found',
    httpStatus: null,
  })
  const killed = await run(process.execPath, ['-e', 'process.kill(process.pid,"SIGKILL")']).catch((e) => e)
  expect(facts(killed)).toMatchObject({ exitCode: null, signal: 'SIGKILL' })
  const missing = await run('/no/such/program').catch((e) => e)
  expect(facts(missing)).toMatchObject({ errno: 'ENOENT', syscall: 'spawn /no/such/program', exitCode: null })
})

test('stderr is kept from its end, as text or bytes', () => {
  const lines = Array.from({ length: 2000 }, (_, i) => `line ${i}`).join('\n')
  const { stderrTail } = facts(error({ stderr: lines }))
  expect(stderrTail).toHaveLength(4000)
  expect(stderrTail).toMatch(/line 1999$/)
  expect(facts(error({ stderr: Buffer.from(lines) })).stderrTail).toBe(stderrTail)
  expect(facts(error({ stderr: new Uint8Array() })).stderrTail).toBeNull()
  expect(facts(error({ stderr: `password=hunter2\n${'x'.repeat(3995)}` })).stderrTail).not.toContain('hunter2')
})

test('a number called code is an exit code only on a process', () => {
  expect(facts(new DOMException('aborted', 'AbortError')).exitCode).toBeNull()
  expect(facts(error({ code: 14, details: 'UNAVAILABLE' })).exitCode).toBeNull()
  expect(facts(error({ code: 1, killed: false, signal: null })).exitCode).toBe(1)
  expect(facts(error({ status: 3, stderr: '' }))).toMatchObject({ exitCode: 3, httpStatus: null })
  expect(facts(error({ exitCode: 137 })).exitCode).toBe(137)
  expect(facts(new RedressError('STORE_BUSY', 'busy')).exitCode).toBeNull()
})

test('a refused connection of fetch is found below "fetch failed"', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  const thrown = await fetch(`http://127.0.0.1:${port}/`).catch((e) => e)
  expect(facts(thrown)).toMatchObject({
    name: 'TypeError',
    message: 'fetch failed',
    errno: 'ECONNREFUSED',
    syscall: 'connect',
    isTimeout: false,
  })
  expect(causesOf(thrown)[0]).toMatchObject({ code: 'ECONNREFUSED' })
})

test.each([
  ['AbortSignal.timeout', new DOMException('timed out', 'TimeoutError')],
  ['undici headers', new TypeError('fetch failed', { cause: error({ code: 'UND_ERR_HEADERS_TIMEOUT' }) })],
  ['undici connect', error({ code: 'UND_ERR_CONNECT_TIMEOUT' })],
  ['a socket', error({ code: 'ETIMEDOUT' })],
  ['a program', error({ timedOut: true })],
  ['the engine', new AttemptTimeout(1000)],
  [
    'the engine through an abort',
    Object.assign(new Error('aborted', { cause: new AttemptTimeout(1) }), { name: 'AbortError' }),
  ],
])('a timeout of %s is a timeout', (_, thrown) => {
  expect(facts(thrown).isTimeout).toBe(true)
})

test('an abort is not a timeout, and neither is the end of the total time', () => {
  expect(facts(new DOMException('aborted', 'AbortError')).isTimeout).toBe(false)
  expect(facts(new TotalTimeout(1000))).toMatchObject({ isTimeout: false, engineLimit: 'total' })
})

test('an HTTP status is found where the usual clients put it', () => {
  for (const props of [
    { status: 503 },
    { statusCode: 503 },
    { response: { status: 503 } },
    { response: { statusCode: 503 } },
    { $metadata: { httpStatusCode: 503 } },
    { response: new Response(null, { status: 503 }) },
  ]) {
    expect(facts(error(props)).httpStatus).toBe(503)
  }
  expect(facts(error({ status: 7 })).httpStatus).toBeNull()
  expect(facts(error({ status: '503' })).httpStatus).toBeNull()
})

test('an S3 code is an answer of the service, not a network error of its client [F10]', () => {
  const denied = error({ name: 'AccessDenied', $fault: 'client', $metadata: { httpStatusCode: 403 } })
  expect(facts(denied)).toMatchObject({ s3Code: 'AccessDenied', httpStatus: 403 })
  const dropped = error({ name: 'TimeoutError', $metadata: { attempts: 1 }, code: 'ECONNRESET' })
  expect(facts(dropped)).toMatchObject({ s3Code: null, errno: 'ECONNRESET', isTimeout: true })
  expect(facts(error({ name: 'S3Error', code: 'NoSuchBucket' })).s3Code).toBe('NoSuchBucket')
})

test('facts come from the outermost link that has them', () => {
  const inner = error({ code: 'ECONNRESET', status: 500 }, 'inner')
  const outer = new Error('outer', { cause: new Error('middle', { cause: error({ status: 502, cause: inner }) }) })
  expect(facts(outer)).toMatchObject({ message: 'outer', httpStatus: 502, errno: 'ECONNRESET' })
  expect(causesOf(outer)).toEqual([
    { name: 'Error', message: 'middle' },
    { name: 'Error', message: 'failed' },
    { name: 'Error', message: 'inner', code: 'ECONNRESET' },
  ])
})

test('the chain is cut at 8 links and at a cycle, and holds the errors of an AggregateError', () => {
  let long = new Error('0')
  for (let i = 1; i < 20; i++) long = new Error(`${i}`, { cause: long })
  expect(chainOf(long)).toHaveLength(8)
  const a = new Error('a')
  a.cause = new Error('b', { cause: a })
  expect(chainOf(a)).toHaveLength(2)
  const many = new AggregateError([error({ code: 'ECONNREFUSED' }), new Error('other')], 'all failed')
  expect(facts(many)).toMatchObject({ message: 'all failed', errno: 'ECONNREFUSED' })
  expect(causesOf(many)).toHaveLength(2)
})

test('causes are redacted and bounded', () => {
  const [cause] = causesOf(new Error('x', { cause: new Error(`token=abc ${'y'.repeat(900)}`) }))
  expect(cause?.message).toMatch(/^token=\[redacted\] y+…$/)
  expect(cause?.message).toHaveLength(500)
})

test('a code declared by the handler is found, through a wrapper too, and is not mistaken for an errno', () => {
  const declared = new AttemptFailed('GW_5XX', { cause: error({ status: 502 }), retryAfterMs: 1500 })
  expect(facts(declared)).toMatchObject({ code: 'GW_5XX', errno: null, httpStatus: 502, retryAfterMs: 1500 })
  expect(facts(new Error('wrapped', { cause: declared })).code).toBe('GW_5XX')
})

test('Retry-After is read as seconds, milliseconds, header or date', () => {
  const now = Date.UTC(2026, 10, 6, 8, 49, 0)
  const after = (props: object) => retryAfterMs(facts(error(props)), now)
  expect(after({ retryAfter: 3 })).toBe(3000)
  expect(after({ retryAfter: '3' })).toBe(3000)
  expect(after({ retryAfterMs: 250 })).toBe(250)
  expect(after({ response: new Response(null, { headers: { 'retry-after': '7' } }) })).toBe(7000)
  expect(after({ response: { headers: { 'Retry-After': '7' } } })).toBe(7000)
  expect(after({ headers: { 'retry-after': '7' } })).toBe(7000)
  expect(after({ retryAfter: 'Fri, 06 Nov 2026 08:49:37 GMT' })).toBe(37_000)
  expect(after({ retryAfter: 'Fri, 06 Nov 2020 08:49:37 GMT' })).toBe(0)
  for (const nonsense of ['soon', -1, Number.NaN, Number.POSITIVE_INFINITY, {}, 'Fri, 06 Foo 2026 08:49:37 GMT']) {
    expect(after({ retryAfter: nonsense })).toBeNull()
  }
  expect(after({})).toBeNull()
})

test('an HTTP date means what the platform says it means', () => {
  const dates = fc.date({ min: new Date('1970-01-01'), max: new Date('2399-12-31'), noInvalidDate: true })
  fc.assert(
    fc.property(dates, (date) => {
      const read = retryAfterMs(facts(error({ retryAfter: date.toUTCString() })), 0)
      expect(read).toBe(Math.floor(date.getTime() / 1000) * 1000)
    }),
  )
})
