import { describe, expect, test } from 'vitest'
import { IsolationScene, KINDS } from './scene.ts'

describe.each(KINDS)('a handler in a %s', (kind) => {
  test('gets its input, knows its attempt, and its output is the result of the job', async () => {
    const scene = new IsolationScene(kind)
    const value = { text: 'ä', list: [1, null], nested: { yes: true } }
    expect(await scene.result({ do: 'return', value })).toEqual(value)
    const { id, result } = await scene.run({ do: 'facts' })
    expect(JSON.parse(result as string)).toEqual({
      jobId: id,
      type: 'act',
      number: 1,
      owner: 'ann',
      retriedFrom: null,
      isAborted: false,
    })
    expect(await scene.run({ do: 'return' })).toMatchObject({ status: 'complete', result: null })
  })

  test('runs outside the thread of the worker, and the next job finds it warm', async () => {
    const scene = new IsolationScene(kind)
    const first = await scene.result({ do: 'who' })
    expect(first).not.toBe(`${process.pid}/0`)
    expect(await scene.result({ do: 'who' })).toBe(first)
  })

  test('is new for every attempt with `fresh`', async () => {
    const scene = new IsolationScene(kind, { options: { fresh: true } })
    expect(await scene.result({ do: 'who' })).not.toBe(await scene.result({ do: 'who' }))
  })

  test('reports progress and context, also when it fails', async () => {
    const scene = new IsolationScene(kind)
    const failure = await scene.failure({ do: 'report' })
    expect(failure.context).toMatchObject({ page: 3, file: 'a.pdf' })
    expect(failure.context).not.toHaveProperty('notJson')
  })

  test('keeps its log lines with the attempt, and the newest progress with its note', async () => {
    const scene = new IsolationScene(kind)
    const { id } = await scene.run({ do: 'tell' })
    const store = await scene.app.store()
    expect(await store.logs({ id, limit: 10 })).toMatchObject([
      { message: 'began', fields: null },
      { message: 'page', fields: { page: 2 } },
    ])
    expect(await scene.row(id)).toMatchObject({
      progressDetail: { done: 3, total: 4, note: 'three of four' },
    })
  })

  test.each(['progress', 'log'] as const)('is told at once of a wrong %s', async (what) => {
    const scene = new IsolationScene(kind)
    const { detail } = await scene.failure({ do: 'tell-wrong', what })
    expect(detail).toMatch(
      what === 'progress' ? /progress must be a number from 0 to 1; got 7/ : /attempt\.log takes a text/,
    )
    expect(detail).toMatch(/acts\.ts:\d+/)
  })

  test('can report its progress in a tight loop without flooding the worker', async () => {
    const scene = new IsolationScene(kind)
    expect(await scene.result({ do: 'flood' })).toBe('calm')
  })

  test.each([
    ['errno', 'DISK_FULL', { errno: 'ENOSPC', syscall: 'write' }],
    ['http', 'SLOW_DOWN', { httpStatus: 429 }],
    ['named', 'DECLINED', {}],
    ['wrapped', 'UNREACHABLE', { errno: 'ECONNREFUSED' }],
    ['fields', 'DECLINED', { subject: 'output' }],
  ] as const)('throws errors that are classified as in the worker: %s', async (what, code, context) => {
    const scene = new IsolationScene(kind)
    const failure = await scene.failure({ do: 'throw', what })
    expect(failure).toMatchObject({ code, context })
    expect(failure.detail).toMatch(/acts\.ts:\d+/)
    expect(failure.detail).not.toMatch(/isolation\/child/)
  })

  test('keeps the class, the message and the causes of an error', async () => {
    const scene = new IsolationScene(kind)
    expect(await scene.failure({ do: 'throw', what: 'named' })).toMatchObject({
      detail: expect.stringMatching(/^PaymentDeclined: card 1234\n {4}at thrown /),
    })
    expect(await scene.failure({ do: 'throw', what: 'wrapped' })).toMatchObject({
      detail: expect.stringMatching(/^Error: upload failed\n/),
      causes: [{ name: 'Error', message: 'refused', code: 'ECONNREFUSED' }],
    })
  })

  test('waits as long as the service asks in an answer', async () => {
    const scene = new IsolationScene(kind, { policy: { retry: { max: 3 } } })
    const id = await scene.submit({ do: 'throw', what: 'http' })
    await expect.poll(async () => (await scene.failures(id)).length).toBe(1)
    await expect.poll(async () => (await scene.row(id)).status).toBe('queued')
    const { dueAtMs } = await scene.row(id)
    expect(Number(dueAtMs) - Date.now()).toBeGreaterThan(1_000)
  })

  test.each([
    ['string', 'the handler threw a string: "only a string"'],
    ['object', 'the handler threw an object: {"reason":"a plain object"}'],
    ['nothing', 'the handler threw undefined'],
  ] as const)('can throw a value that is no error: %s', async (what, detail) => {
    const scene = new IsolationScene(kind)
    expect(await scene.failure({ do: 'throw', what })).toMatchObject({ code: 'UNKNOWN', detail })
  })

  test('fails with a code of its type', async () => {
    const scene = new IsolationScene(kind)
    const options = { detail: '3 GB', context: { bytes: 3 }, note: 'At most 2 GB.', cause: new Error('lost') }
    expect(await scene.failure({ do: 'fail', options: { ...options, cause: undefined } })).toMatchObject({
      code: 'TOO_LARGE',
      message: 'The file is too large. At most 2 GB.',
      detail: expect.stringContaining('3 GB'),
      context: { bytes: 3 },
      rule: 'declared by the handler',
    })
  })

  test('can put its job back for later', async () => {
    const scene = new IsolationScene(kind)
    const id = await scene.submit({ do: 'snooze' })
    await expect.poll(async () => (await scene.row(id)).attempt).toBe(1)
    await expect.poll(async () => (await scene.row(id)).status).toBe('queued')
    const { dueAtMs } = await scene.row(id)
    expect(Number(dueAtMs) - Date.now()).toBeGreaterThan(3_000_000)
  })

  test('is told clearly that it has no stages', async () => {
    const scene = new IsolationScene(kind)
    expect((await scene.failure({ do: 'stage' })).detail).toContain('attempt.stage() does not work in a thread')
  })

  test.each([
    ['function', 'function'],
    ['cycle', 'JSON'],
    ['huge', '1048576'],
  ] as const)('whose result cannot be kept fails with RESULT_INVALID: %s', async (what, said) => {
    const scene = new IsolationScene(kind)
    const failure = await scene.failure({ do: 'unsendable', what })
    expect(failure).toMatchObject({ code: 'RESULT_INVALID', detail: expect.stringContaining(said) })
  })

  test('that computes leaves the event loop of the worker free, and the lease is renewed', async () => {
    const scene = new IsolationScene(kind, { policy: { lease: { ttl: '1s' } } })
    const id = await scene.submit({ do: 'compute', ms: 2_500 })
    await expect.poll(async () => (await scene.row(id)).status).toBe('processing')
    let turns = 0
    const timer = setInterval(() => turns++, 10)
    const row = await scene.ended(id)
    clearInterval(timer)
    expect(row).toMatchObject({ status: 'complete', result: '"computed"', attempt: 1 })
    expect(turns).toBeGreaterThan(20)
  })
})
