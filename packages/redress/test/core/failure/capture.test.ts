import fc from 'fast-check'
import { expect, test } from 'vitest'
import { AttemptFailed, AttemptTimeout } from '../../../src/core/failure/attempt-failed.ts'
import { type CaptureInput, captureFailure, engineFailure } from '../../../src/core/failure/capture.ts'
import { rule } from '../../../src/core/failure/classify.ts'
import { LAYER_OF_PHASE, PHASES } from '../../../src/core/failure/failure.ts'
import { ENGINE_CODES, type EngineCode, failureCodes, withEngineCodes } from '../../../src/core/failure/taxonomy.ts'
import { publicLine } from '../../../src/core/text/public-line.ts'
import { hostile } from './hostile.ts'

const codes = withEngineCodes(
  failureCodes({
    GW_4XX: { fault: 'caller', retry: 'never', message: 'Couldn’t convert this file with the selected mapping.' },
    GW_5XX: {
      fault: 'dependency',
      retry: 'transient',
      message: 'Converter service kept failing. Retry later.',
      waiting: 'Converter service is having an issue. We’ll retry shortly.',
    },
    FFMPEG_FAILED: { fault: 'unknown', retry: 'never', message: 'Encoding failed.' },
    DOWNLOAD_HTTP_4XX: { fault: 'caller', retry: 'never', message: 'The server refused the download.' },
  }),
)
const rules = [
  rule.http({ status: [400, 406] }, 'GW_4XX'),
  rule.http({ status: '5xx' }, 'GW_5XX'),
  rule.exit('nonzero', 'FFMPEG_FAILED'),
]

const capture = (thrown: unknown, more: Partial<CaptureInput> = {}) =>
  captureFailure({ thrown, phase: 'execution', type: 'pdf.convert', codes, rules, nowMs: 0, ...more })
const error = (props: object, message = 'failed') => Object.assign(new Error(message), props)

test('every failure has a layer, a code, a message, a detail, a rule and a fingerprint [P1 P37]', () => {
  const layers = { pre_dispatch: 'submission', dispatch: 'coordination', execution: 'worker', verification: 'worker' }
  for (const phase of PHASES) {
    const { failure } = capture(new Error('boom'), { phase })
    expect(failure).toMatchObject({ phase, layer: layers[phase] })
    for (const field of ['code', 'message', 'waiting', 'detail', 'rule', 'fingerprint'] as const) {
      expect(failure[field]).not.toBe('')
    }
  }
})

test('the accountable layer of a failure follows from its phase and cannot be set [P4 P12 P21 P31]', () => {
  const layer = (phase: (typeof PHASES)[number]) =>
    capture(Object.assign(new Error('x'), { layer: 'nobody' }), { phase, context: { layer: 'nobody' } }).failure.layer
  expect(PHASES.map(layer)).toEqual(PHASES.map((phase) => LAYER_OF_PHASE[phase]))
})

test('a failed encode keeps its stderr, its exit code and its clip [P24 P25 P26]', () => {
  const thrown = error({ exitCode: 1, signal: null, stderr: 'frame=1\nConversion failed!\n' })
  const { failure, retry } = capture(thrown, { context: { clip: 3 } })
  expect(failure).toMatchObject({
    phase: 'execution',
    layer: 'worker',
    code: 'FFMPEG_FAILED',
    rule: 'exit status not 0',
    context: { exitCode: 1, stderrTail: 'frame=1\nConversion failed!', clip: 3 },
  })
  expect(failure.context).not.toHaveProperty('httpStatus')
  expect(retry).toBe('never')
})

test('a verification failure is named as such with the check that failed [P33 P34]', () => {
  const { failure } = capture(new Error('expected prores, found h264'), {
    phase: 'verification',
    context: { verification: 'codec' },
  })
  expect(failure).toMatchObject({
    phase: 'verification',
    layer: 'worker',
    code: 'VERIFICATION_FAILED',
    context: { verification: 'codec' },
  })
  expect(failure.detail).toContain('expected prores, found h264')
})

test('the failure codes say which failures are retried [D11]', () => {
  expect(capture(error({ status: 502 })).retry).toBe('transient')
  expect(capture(error({ status: 406 })).retry).toBe('never')
  expect(capture(new AttemptTimeout(5)).retry).toBe('transient')
})

test('a throw that no rule knows leaves the retry to the policy', () => {
  expect(capture(new Error('boom'))).toMatchObject({
    failure: { code: 'UNKNOWN', rule: 'no rule matched' },
    retry: 'unknown',
  })
  // A handler that says UNKNOWN on purpose has decided: the row counts.
  expect(capture(new AttemptFailed('UNKNOWN')).retry).toBe('transient')
})

test("the public message is the line of the code plus the handler's safe note [D25]", () => {
  const thrown = new AttemptFailed('GW_4XX', {
    detail: 'POST /srv/gateway/convert answered 406 at line 3',
    note: 'Field “total” is\n missing; see https://u:p@gw/doc',
    cause: error({ status: 406 }),
  })
  const { failure } = capture(thrown)
  expect(failure.message).toBe(
    'Couldn’t convert this file with the selected mapping. Field “total” is missing; see https://[redacted]@gw/doc',
  )
  expect(failure.detail).toContain('POST /srv/gateway/convert')
  expect(failure.context).toEqual({ httpStatus: 406 })
  expect(capture(error({ status: 406 }, 'secret path /srv')).failure.message).toBe(codes.GW_4XX?.message)
})

test('what a handler calls final is final, for the code that it said it of', () => {
  expect(capture(new AttemptFailed('GW_5XX', { final: true })).retry).toBe('final')
  expect(capture(new AttemptFailed('GW_5XX', { final: false })).retry).toBe('transient')
  expect(capture(new AttemptFailed('NOT_DECLARED', { final: true })).retry).not.toBe('final')
})

test('a note is one line of at most 200 characters without control characters', () => {
  const note = (text: string) => new AttemptFailed('X', { note: text }).publicNote
  expect(note('a\r\n\tb\u0000\u001b[31mc')).toBe('a b [31mc')
  expect(note('x'.repeat(900))).toHaveLength(200)
  expect(note(' \n ')).toBeNull()
})

test('while a retry waits another line is shown than at the end', () => {
  const { failure } = capture(error({ status: 503 }))
  expect(failure.waiting).toBe('Converter service is having an issue. We’ll retry shortly.')
  expect(failure.message).toBe('Converter service kept failing. Retry later.')
  const { failure: final } = capture(error({ status: 400 }))
  expect(final.waiting).toBe(final.message)
})

test('the context given by the handler is kept beside the facts, redacted [F4]', () => {
  const context = { proxy: 'pool#2', attempt: 3, status: null, headers: { Authorization: 'Bearer abc' } }
  const thrown = new AttemptFailed('DOWNLOAD_HTTP_4XX', { context, cause: error({ statusCode: 404 }) })
  expect(capture(thrown, { context: { task: 7 } }).failure.context).toEqual({
    httpStatus: 404,
    task: 7,
    proxy: 'pool#2',
    attempt: 3,
    status: null,
    headers: { Authorization: '[redacted]' },
  })
  expect(context.headers.Authorization).toBe('Bearer abc')
})

test('a code the taxonomy does not have is a mistake in the handler, and is named', () => {
  const { failure, retry } = capture(new AttemptFailed('GW_6XX'))
  expect(failure).toMatchObject({ code: 'CODE_UNDECLARED', fault: 'code' })
  expect(failure.rule).toContain('GW_6XX')
  expect(retry).toBe('never')
})

test('the delay the other side asked for is carried along', () => {
  const headers = { 'retry-after': 'Thu, 01 Jan 1970 00:01:00 GMT' }
  expect(capture(error({ status: 503, headers }), { nowMs: 20_000 }).retryAfterMs).toBe(40_000)
  expect(capture(new AttemptFailed('GW_5XX', { retryAfterMs: 900 })).retryAfterMs).toBe(900)
  expect(capture(new Error('boom')).retryAfterMs).toBeNull()
})

test('failures of one cause have one fingerprint, and what fetch failed of makes a difference', () => {
  const fail = (id: number, code: string) =>
    capture(new TypeError('fetch failed', { cause: error({ code }, `connect ${code} 10.0.0.${id}:80`) })).failure
      .fingerprint
  expect(fail(1, 'ECONNREFUSED')).toBe(fail(2, 'ECONNREFUSED'))
  expect(fail(1, 'ECONNREFUSED')).not.toBe(fail(1, 'ENETUNREACH'))
})

test.each(hostile)('%s can be thrown and is captured', (_, thrown) => {
  const { failure } = capture(thrown)
  expect(failure.code).toBe('UNKNOWN')
  expect(failure.detail).not.toContain('could not be examined')
  expect(JSON.parse(JSON.stringify(failure))).toEqual(failure)
})

test('anything can be thrown, with any context, and the record is bounded JSON', () => {
  fc.assert(
    fc.property(fc.anything({ withBigInt: true }), fc.anything({ withBigInt: true }), (thrown, context) => {
      const { failure } = capture(thrown, { context: context as Record<string, unknown> })
      const text = JSON.stringify(failure)
      expect(JSON.parse(text)).toEqual(failure)
      expect(text.length).toBeLessThan(50_000)
      expect(failure.detail).not.toContain('could not be examined')
    }),
    { numRuns: 2000 },
  )
})

test('a context is read back from its JSON as it was written, whatever its keys and whatever was parsed before', () => {
  // What makes V8 take the key `"` for `\\` later on.
  JSON.parse('{"":0," ":"","\\\\":null}')
  const { failure } = capture(new Error('x'), { context: { '': 0, ' ': '', '"': null } })
  expect(JSON.parse(JSON.stringify(failure))).toEqual(failure)
  expect(Object.keys(failure.context)).toEqual(['', ' ', "'"])
})

test('no secret reaches any part of the record', () => {
  const secret = 'Hunter2Hunter2Hunter2'
  const places = [
    new Error(`GET https://u:${secret}@h/?token=${secret}`),
    new Error('x', { cause: new Error(`password=${secret}`) }),
    error({ stderr: `Authorization: Bearer ${secret}\n`, exitCode: 1, syscall: `spawn x --token=${secret}` }),
    error({ name: `token=${secret}`, stack: `E\n    at password=${secret} (x:1:1)` }),
    new AttemptFailed('GW_4XX', { detail: `api_key: ${secret}`, note: `sig=${secret}`, context: { secret } }),
    { apiKey: secret },
    `Cookie: ${secret}`,
  ]
  for (const thrown of places) expect(JSON.stringify(capture(thrown))).not.toContain(secret)
})

test('a failure without a thrown value has the engine’s message, or the author’s', () => {
  for (const code of Object.keys(ENGINE_CODES) as EngineCode[]) {
    const failure = engineFailure({
      code,
      phase: 'dispatch',
      type: 't',
      detail: 'worker 7 token=x',
      context: { worker: 7 },
    })
    expect(failure).toMatchObject({
      code,
      layer: 'coordination',
      message: ENGINE_CODES[code].message,
      context: { worker: 7 },
    })
    expect(failure.detail).toBe('worker 7 token=[redacted]')
  }
  const own = withEngineCodes(
    failureCodes({ WORKER_LOST: { fault: 'system', retry: 'never', message: 'Encoder died.' } }),
  )
  const lost = { code: 'WORKER_LOST', phase: 'execution', type: 't' } as const
  expect(engineFailure({ ...lost, detail: 'a', codes: own }).message).toBe('Encoder died.')
  expect(engineFailure({ ...lost, detail: 'a' }).fingerprint).toBe(engineFailure({ ...lost, detail: 'b' }).fingerprint)
})

test.each([
  ['Error: no end\n    at run (/srv/app/convert.ts:12:7)\n    at async go (file:///srv/x.js:1:2)', 'Error: no end'],
  ['TypeError: x    at /srv/app.ts:3:1', 'TypeError: x'],
  ['Error: x\n    at Object.<anonymous> (node:internal/main:1:2)\n', 'Error: x'],
  ['Error: x\n    at run (C:\\app\\convert.ts:12:7)', 'Error: x'],
  [`Error: x\n    at run (/srv/app/${'x'.repeat(800)}.ts:12:7)`, 'Error: x'],
  ['Error: x\n    at Array.map (<anonymous>)\n    at async Promise.all (index 0)', 'Error: x'],
  ['Look at /pages/3', 'Look at /pages/3'],
  ['Look at the page (index 3)', 'Look at the page (index 3)'],
  ['Look at /pages/3 at 12:30, or at line 7:1.', 'Look at /pages/3 at 12:30, or at line 7:1.'],
])('what a handler says to the owner loses its stack trace and nothing else: %j', (note, told) => {
  expect(publicLine(note)).toBe(told)
})

test('a stack that the limit cuts off anywhere leaves no part of a frame in a public line', () => {
  for (let chars = 1; chars < 200; chars++) {
    const folder = 'f'.repeat(chars)
    const frames = Array.from({ length: 30 }, () => `    at Slots.#next [as take] (/srv/${folder}/slots.ts:12:7)`)
    expect(publicLine(['Error: no slot', ...frames].join('\n'))).toBe('Error: no slot')
  }
})
