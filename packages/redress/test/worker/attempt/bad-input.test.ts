import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { Scene } from '../../../../../test/support/scene.ts'
import { RedressError } from '../../../src/core/errors.ts'
import type { Store } from '../../../src/store/contract/store.ts'

let scene: Scene
beforeEach(() => {
  scene = new Scene()
})
afterEach(() => scene.end())

const KIB = 1024
const MIB = KIB * KIB

/** What somebody who submits sees: a code, a sentence and what to do. Never a driver's own error. */
async function refusal(submitting: Promise<unknown>): Promise<RedressError> {
  const error = await submitting.then(
    () => new Error('it was accepted'),
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof RedressError)) throw error
  expect(error.message).toMatch(/^[A-Z].*\.$|^[a-zA-Z]+[: ]/)
  expect(error.action).not.toBe('')
  return error
}

/** Whatever was refused before, an honest job of the same app still runs. */
async function expectTheRestGoesOn(): Promise<void> {
  scene.app.job('honest', { run: () => 'done' })
  const { id } = await scene.app.submit('honest', {})
  await (await scene.worker()).tick()
  expect(await scene.job(id)).toMatchObject({ status: 'complete', result: '"done"' })
}

describe('at submission', () => {
  test('an input that does not fit the schema is refused with the fields it got wrong', async () => {
    const page = scene.app.job('page', {
      input: z.object({ url: z.url(), depth: z.number().max(3) }),
      run: () => undefined,
    })
    const wrong = { url: 'not a url', depth: 7 }
    const error = await refusal(page.submit(wrong))
    expect(error.code).toBe('INPUT_INVALID')
    expect(error.problems).toEqual([expect.stringMatching(/^url: /), expect.stringMatching(/^depth: /)])
    expect(await scene.store.jobs({ limit: 10 })).toEqual([])
    await expectTheRestGoesOn()
  })

  test("with reject 'record' the same input makes a failed job that says what is wrong and was never dispatched", async () => {
    const page = scene.app.job('page', {
      input: z.object({ url: z.url() }),
      policy: { reject: 'record' },
      run: () => undefined,
    })
    const { id, status } = await page.submit({ url: 'not a url' })
    expect(status).toBe('failed')
    await (await scene.worker()).tick()
    expect(await scene.job(id)).toMatchObject({ status: 'failed', attempt: 0, startedAtMs: null })
    expect(await scene.lastFailure(id)).toMatchObject({
      code: 'INPUT_INVALID',
      phase: 'pre_dispatch',
      layer: 'submission',
      fault: 'caller',
      detail: expect.stringContaining('url: '),
    })
    expect(await scene.rebuilt(id)).toEqual(await scene.standing(id))
  })

  test('an unknown type is refused by name', async () => {
    const error = await refusal(scene.app.submit('no.such.type', {}))
    expect(error.code).toBe('TYPE_UNKNOWN')
    expect(error.message).toContain('no.such.type')
    await expectTheRestGoesOn()
  })

  test('a payload of exactly 1 MiB is taken, one byte more is refused with both sizes', async () => {
    const big = scene.app.job('big', { run: (input: string) => input.length })
    const { id } = await big.submit('x'.repeat(MIB - 2))
    const error = await refusal(big.submit('x'.repeat(MIB - 1)))
    expect(error.code).toBe('PAYLOAD_TOO_LARGE')
    expect(error.message).toContain(`${MIB + 1} bytes`)
    expect(error.message).toContain(`at most ${MIB}`)
    await (await scene.worker()).tick()
    expect((await scene.job(id)).result).toBe(String(MIB - 2))
    await expectTheRestGoesOn()
  })

  test('a payload is measured in bytes, not in characters', async () => {
    const big = scene.app.job('big', { run: (input: string) => input.length })
    // Four bytes each, two UTF-16 units each.
    const emoji = '🎬'.repeat(MIB / 4)
    expect((await refusal(big.submit(emoji))).code).toBe('PAYLOAD_TOO_LARGE')
    const fits = emoji.slice(0, -2)
    const { id } = await big.submit(fits)
    await (await scene.worker()).tick()
    expect((await scene.job(id)).result).toBe(String(fits.length))
  })

  const cycle: Record<string, unknown> = {}
  cycle.self = cycle
  const notJson: [string, unknown][] = [
    ['a BigInt', { n: 1n }],
    ['a cycle', cycle],
    ['undefined', undefined],
    ['a function', () => 1],
    ['a symbol', Symbol('x')],
    [
      'a toJSON that throws',
      {
        toJSON() {
          throw new Error('no')
        },
      },
    ],
    [
      'a getter that throws null',
      {
        get x() {
          throw null
        },
      },
    ],
  ]
  test.each(notJson)('an input that JSON cannot hold is refused: %s', async (_name, input) => {
    scene.app.job('any', { run: () => undefined })
    expect((await refusal(scene.app.submit('any', input))).code).toBe('PAYLOAD_NOT_JSON')
    expect(await scene.store.jobs({ limit: 10 })).toEqual([])
    await expectTheRestGoesOn()
  })

  const badOptions: [string, object, RegExp][] = [
    ['priority NaN', { priority: Number.NaN }, /priority/],
    ['priority 0.5', { priority: 0.5 }, /priority/],
    ['priority Infinity', { priority: Number.POSITIVE_INFINITY }, /priority/],
    ['priority as text', { priority: '5' }, /priority/],
    ['a negative delay', { delay: -1 }, /delay.*negative/],
    ['a delay that is no duration', { delay: 'soon' }, /delay.*duration/],
    ['an endless delay', { delay: Number.POSITIVE_INFINITY }, /delay.*10 years/],
    ['an empty dedupe key', { dedupe: '' }, /dedupe/],
    ['a dedupe key without parts', { dedupe: [] }, /dedupe/],
    ['a dedupe key with a part that is no number', { dedupe: ['a', Number.NaN] }, /dedupe/],
    ['a dedupe key that is a number', { dedupe: 5 }, /dedupe/],
    ['a dedupe key that is null', { dedupe: null }, /dedupe/],
    ['a dedupe scope that does not exist', { dedupe: { key: 'a', scope: 'forever' } }, /dedupe/],
    ['a dedupe key of a megabyte', { dedupe: 'k'.repeat(MIB) }, /dedupe/],
    ['an id that is no UUID', { id: 'my-job' }, /UUID/],
    ['an id in capitals', { id: '0195B1A0-0000-7000-8000-000000000000' }, /UUID/],
    ['an empty owner', { owner: '' }, /owner/],
    ['an owner that is no text', { owner: 7 }, /owner/],
  ]
  test.each(badOptions)('a bad option is refused by name: %s', async (_name, options, names) => {
    scene.app.job('any', { run: () => undefined })
    const error = await refusal(scene.app.submit('any', {}, options))
    expect(error.code).toBe('OPTION_INVALID')
    expect(error.message).toMatch(names)
    expect(await scene.store.jobs({ limit: 10 })).toEqual([])
    await expectTheRestGoesOn()
  })

  test('of many submitted at once, one bad input refuses them all: all or none', async () => {
    const page = scene.app.job('page', { input: z.object({ n: z.number() }), run: () => undefined })
    const inputs = [{ n: 1 }, { n: 2 }, { n: 'three' as unknown as number }]
    expect((await refusal(page.submitMany(inputs))).code).toBe('INPUT_INVALID')
    expect(await scene.store.jobs({ limit: 10 })).toEqual([])
  })

  test('the stored value is checked: a value that JSON changes must fit after the change', async () => {
    // A Date becomes text in JSON. Accepted now, it could only fail at dispatch, when nobody is there to correct it.
    const dated = scene.app.job('dated', { input: z.object({ at: z.date() }), run: () => undefined })
    expect((await refusal(dated.submit({ at: new Date(0) }))).code).toBe('INPUT_INVALID')
  })
})

describe('when a type is declared', () => {
  test('a policy that contradicts itself names both fields and the reason', () => {
    const declare = () => scene.app.job('any', { policy: { forwardOnly: true, retry: { max: 3 } }, run: () => 1 })
    expect(declare).toThrow(/forwardOnly contradicts retry\.max: .*way back/)
    expect(scene.app.types).toEqual([])
  })

  test('a misspelt policy field names the nearest one', () => {
    const policy = { retry: { mex: 3 } } as object
    expect(() => scene.app.job('any', { policy, run: () => 1 })).toThrow(/retry\.mex.*nearest is retry\.max/)
  })

  test.each(['', '1st', 'with space', 'a'.repeat(101), '../up'])('%j is no name for a type', (name) => {
    expect(() => scene.app.job(name, { run: () => 1 })).toThrow(/not a name for a job type/)
  })

  test('the same name twice is refused', () => {
    scene.app.job('any', { run: () => 1 })
    expect(() => scene.app.job('any', { run: () => 2 })).toThrow(/declared already/)
  })
})

describe('when a worker is made', () => {
  test.each([
    ['concurrency', 0],
    ['concurrency', Number.NaN],
    ['concurrency', 2.5],
    ['concurrency', '4'],
    ['prefetchMax', -1],
    ['pollMs', 0],
    ['pollMs', Number.POSITIVE_INFINITY],
    ['maintenanceMs', -5],
    ['resultBytesMax', null],
  ])('%s %j is refused by name', async (name, value) => {
    scene.app.job('any', { run: () => 1 })
    const error = await refusal(scene.app.makeWorker({ [name]: value }))
    expect(error.code).toBe('OPTION_INVALID')
    expect(error.message).toContain(name)
  })

  test('an option that is undefined takes its default', async () => {
    scene.app.job('any', { run: () => 1 })
    const { id } = await scene.app.submit('any', {})
    await (await scene.worker(JSON.parse('{}', () => ({ concurrency: undefined, pollMs: undefined })))).tick()
    expect(await scene.status(id)).toBe('complete')
  })
})

describe('at dispatch', () => {
  test('a stored payload that is no JSON any more is a dispatch failure like any other, and the rest goes on', async () => {
    const store: Store = {
      ...scene.store,
      async claim(params) {
        const claimed = await scene.store.claim(params)
        const leases = claimed.leases.map((lease) => ({ ...lease, payload: lease.payload.replace('}', '') }))
        return { ...claimed, leases }
      },
    }
    const app = scene.newApp({ store })
    app.job('any', { run: () => 'done' })
    const [broken, whole] = await app.submitMany('any', [{ a: 1 }, [1]])
    await (await scene.worker({}, app)).tick()
    expect(await scene.lastFailure(String(broken?.id))).toMatchObject({
      phase: 'dispatch',
      detail: expect.stringContaining('JSON'),
    })
    expect(await scene.status(String(whole?.id))).toBe('complete')
  })

  test('a stored payload that no longer fits fails before the handler sees it, and the rest goes on', async () => {
    const old = scene.newApp()
    const { id } = await old.job('page', { run: () => undefined }).submit({ url: 7 })
    const seen: unknown[] = []
    scene.app.job('page', { input: z.object({ url: z.string() }), run: (input) => seen.push(input) })
    const good = await scene.app.submit('page', { url: 'a' })
    await (await scene.worker()).tick()
    expect(seen).toEqual([{ url: 'a' }])
    expect(await scene.status(good.id)).toBe('complete')
    expect(await scene.job(id)).toMatchObject({ status: 'failed', attempt: 1 })
    expect(await scene.lastFailure(id)).toMatchObject({
      code: 'INPUT_INVALID',
      phase: 'dispatch',
      layer: 'coordination',
      detail: expect.stringContaining('url: '),
    })
  })

  test('a schema that answers later is heard, whether it accepts or refuses', async () => {
    const old = scene.newApp()
    const type = old.job('slow', { run: () => undefined })
    const [odd, even] = await type.submitMany([{ n: 1 }, { n: 2 }])
    const input = z.object({ n: z.number().refine(async (n) => n % 2 === 0, 'must be even') })
    scene.app.job('slow', { input, run: ({ n }) => n * 2 })
    await (await scene.worker()).tick()
    expect(await scene.job(String(even?.id))).toMatchObject({ status: 'complete', result: '4' })
    expect(await scene.lastFailure(String(odd?.id))).toMatchObject({ code: 'INPUT_INVALID', phase: 'dispatch' })
  })

  test('a schema that answers after the attempt was stopped does not start the handler any more', async () => {
    const old = scene.newApp()
    const { id } = await old.job('slow', { run: () => undefined }).submit({})
    const checked = Promise.withResolvers<boolean>()
    let runs = 0
    scene.app.job('slow', {
      input: z.object({}).refine(() => checked.promise),
      policy: { timeout: { attempt: '5s' } },
      run: () => runs++,
    })
    await (await scene.worker()).tick()
    await scene.pass(5_000)
    expect(await scene.lastFailure(id)).toMatchObject({ code: 'TIMEOUT' })
    checked.resolve(true)
    await scene.pass(0)
    expect(runs).toBe(0)
  })

  test('a schema that throws instead of answering is a failure like any other', async () => {
    const old = scene.newApp()
    const { id } = await old.job('any', { run: () => undefined }).submit({})
    const input = {
      '~standard': {
        version: 1 as const,
        vendor: 'test',
        validate: (): never => {
          throw new RangeError('the schema itself is broken')
        },
      },
    }
    scene.app.job('any', { input, run: () => 'never reached' })
    await (await scene.worker()).tick()
    expect(await scene.lastFailure(id)).toMatchObject({
      code: 'UNKNOWN',
      phase: 'dispatch',
      detail: expect.stringContaining('the schema itself is broken'),
    })
  })
})

describe('at the end', () => {
  const cycle: unknown[] = []
  cycle.push(cycle)
  const badResults: [string, unknown, RegExp][] = [
    ['a BigInt', 1n, /BigInt/],
    ['a cycle', cycle, /circular/i],
    ['a function', () => 1, /function/],
    ['a symbol', Symbol('x'), /symbol/],
    ['too large', 'x'.repeat(MIB), /bytes/],
    ['too large in bytes only', '🎬'.repeat(MIB / 4), /bytes/],
    [
      'a toJSON that throws undefined',
      {
        toJSON() {
          throw undefined
        },
      },
      /JSON/,
    ],
  ]
  test.each(badResults)('a result that cannot be kept fails the job and says why: %s', async (_name, result, says) => {
    scene.app.job('any', { policy: { retry: { max: 3, unknown: 'transient' } }, run: () => result })
    const { id } = await scene.app.submit('any', {})
    await (await scene.worker()).tick()
    // The same work would give the same result: never retried, however many attempts are left.
    expect(await scene.job(id)).toMatchObject({ status: 'failed', attempt: 1, result: null })
    const failure = await scene.lastFailure(id)
    expect(failure).toMatchObject({ code: 'RESULT_INVALID', fault: 'code' })
    expect(failure.detail).toMatch(says)
    await expectTheRestGoesOn()
  })

  test('no result at all is fine, and null is a result', async () => {
    scene.app.job('void', { run: () => undefined })
    scene.app.job('null', { run: () => null })
    const nothing = await scene.app.submit('void', {})
    const nil = await scene.app.submit('null', {})
    await (await scene.worker()).tick()
    expect(await scene.job(nothing.id)).toMatchObject({ status: 'complete', result: null })
    expect(await scene.job(nil.id)).toMatchObject({ status: 'complete', result: 'null' })
  })
})
