import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { App } from '../../src/app/app.ts'
import { AttemptTimeout } from '../../src/core/attempt-failed.ts'
import type { PolicyInput } from '../../src/core/policy.ts'
import type { Store } from '../../src/store/store.ts'
import type { Attempt } from '../../src/worker/attempt.ts'
import { LeaseLost, ShuttingDown } from '../../src/worker/signals.ts'
import type { Worker } from '../../src/worker/worker.ts'
import { Scene } from '../support/scene.ts'
import { turns } from '../support/until.ts'

let scene: Scene
beforeEach(() => {
  scene = new Scene()
})
afterEach(() => scene.end())

/** `late`: done at once, answered after `lateMs`. `unknown`: done, and answered with an error. */
type Form = 'well' | 'refused' | 'unknown' | 'late' | 'silent'
const FAULTS = ['refused', 'unknown', 'late', 'silent'] as const

type Method =
  | 'renew'
  | 'claim'
  | 'close'
  | 'start'
  | 'cancellations'
  | 'dismiss'
  | 'stalled'
  | 'standings'
  | 'countCalls'
const METHODS: readonly Method[] = [
  ...(['renew', 'claim', 'close', 'start', 'cancellations', 'dismiss', 'stalled', 'standings', 'countCalls'] as const),
]

/** The scene's store, with calls that fail as a test says. */
class Faulty {
  readonly store: Store
  readonly asked: { method: Method; atMs: number }[] = []
  lateMs = 60_000
  readonly #forms = new Map<Method, Form>()
  readonly #clock: Scene['clock']

  constructor({ store, clock }: Scene) {
    this.#clock = clock
    const calls = METHODS.map((method) => {
      const call = (params: never) => this.#call(method, () => (store[method] as (given: never) => unknown)(params))
      return [method, call] as const
    })
    this.store = { ...store, ...Object.fromEntries(calls) }
  }

  set(form: Form, ...methods: readonly Method[]): void {
    for (const method of methods) this.#forms.set(method, form)
  }

  timesOf(method: Method): number[] {
    return this.asked.flatMap((one) => (one.method === method ? [one.atMs] : []))
  }

  async #call(method: Method, really: () => unknown): Promise<unknown> {
    this.asked.push({ method, atMs: this.#clock.monoMs() })
    const form = this.#forms.get(method) ?? 'well'
    if (form === 'refused') throw new Error('connection refused')
    if (form === 'silent') return new Promise(() => undefined)
    const answer = await really()
    if (form === 'unknown') throw new Error('connection lost before the answer')
    if (form === 'late') await new Promise<void>((resolve) => this.#clock.setTimer(this.lateMs, resolve))
    return answer
  }
}

interface Run {
  attempt: Attempt
  /** When its signal fired, and why. */
  stoppedMs: number | null
  reason: unknown
  end: (output?: unknown) => void
}

/** A job type whose runs stay open until the test ends them, and note when their signal fires. */
function open(app: App, name: string, ttlMs: number, policy: PolicyInput = {}): Run[] {
  const runs: Run[] = []
  app.job(name, {
    policy: { orphan: 'requeue', timeout: { attempt: null }, ...policy, lease: { ttl: ttlMs } },
    run: (_: unknown, attempt) =>
      new Promise((end) => {
        const run: Run = { attempt: attempt as Attempt, stoppedMs: null, reason: null, end }
        attempt.signal.addEventListener('abort', () => {
          run.stoppedMs = scene.clock.monoMs()
          run.reason = attempt.signal.reason
        })
        runs.push(run)
      }),
  })
  return runs
}

const pass = (ms: number) => scene.clock.advance(ms, () => turns(3))
const only = (runs: readonly Run[]): Run => {
  expect(runs).toHaveLength(1)
  return runs[0] as Run
}

describe('the signal of a handler fires within a second of the end of its lease', () => {
  test.each(FAULTS.flatMap((form) => [1_000, 3_000, 30_000, 120_000].map((ttlMs) => [form, ttlMs] as const)))(
    'when renewals are %s, on a lease of %i ms',
    async (form, ttlMs) => {
      const faulty = new Faulty(scene)
      faulty.lateMs = 3 * ttlMs
      const app = scene.newApp({ store: faulty.store })
      const runs = open(app, 'open', ttlMs)
      const { id } = await app.submit('open', {})
      const worker = await scene.worker({}, app)
      await worker.tick()
      // Renewed a few times first: trust that is counted wrongly would grow with each.
      await pass(3 * ttlMs)
      const untilMs = ((await scene.job(id)).lease?.untilMs ?? 0) - scene.clock.nowMs() + scene.clock.monoMs()
      faulty.set(form, 'renew')
      await pass(2 * ttlMs + 1_000)
      const { stoppedMs, reason } = only(runs.slice(0, 1))
      expect(reason).toBeInstanceOf(LeaseLost)
      expect(stoppedMs).toBeGreaterThanOrEqual(untilMs - 1)
      expect(stoppedMs).toBeLessThanOrEqual(untilMs + 1_000)
    },
  )

  test('when no call is answered: renew, claim, start, close, cancellations', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    const short = open(app, 'short', 3_000)
    const long = open(app, 'long', 60_000)
    const timed = open(app, 'timed', 60_000, { timeout: { attempt: '5s' } })
    for (const type of ['short', 'short', 'long', 'timed']) await app.submit(type, {})
    const worker = await scene.worker({ concurrency: 20 }, app)
    await worker.tick()
    const claimedMs = scene.clock.monoMs()
    faulty.set('silent', ...METHODS)
    await pass(70_000)
    const stopsOf = (runs: readonly Run[]) => runs.map(({ stoppedMs }) => (stoppedMs ?? Number.NaN) - claimedMs)
    expect(stopsOf(short)).toEqual([3_000, 3_000])
    expect(stopsOf(timed)).toEqual([5_000])
    expect(only(timed).reason).toBeInstanceOf(AttemptTimeout)
    expect(stopsOf(long)).toEqual([60_000])
  })

  test('of a handler that begins while nothing is answered', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    const runs = open(app, 'open', 3_000)
    const worker = await scene.worker({ concurrency: 2 }, app)
    await worker.tick()
    faulty.set('silent', ...METHODS.filter((method) => method !== 'claim'))
    await app.submitMany('open', [{}, {}])
    await pass(4_000)
    expect(runs.map(({ stoppedMs }) => stoppedMs)).toEqual([3_100, 3_100])
  })

  test('when the wall clock jumps while renewals are silent', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    const runs = open(app, 'open', 30_000)
    await app.submit('open', {})
    const worker = await scene.worker({}, app)
    await worker.tick()
    faulty.set('silent', 'renew')
    scene.clock.jump(-3_600_000)
    await pass(31_000)
    expect(only(runs).stoppedMs).toBe(30_000)
  })

  test('after the process stood still and nothing is answered, half a second after it goes on', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    const runs = open(app, 'open', 30_000)
    await app.submit('open', {})
    const worker = await scene.worker({}, app)
    await worker.tick()
    faulty.set('silent', 'renew')
    scene.clock.block(40_000)
    await pass(30_000)
    expect(only(runs).stoppedMs).toBeLessThanOrEqual(70_500)
    expect(only(runs).reason).toBeInstanceOf(LeaseLost)
  })
})

describe('a renewal', () => {
  test('keeps a job whose process stood still longer than its lease, if no other worker took it', async () => {
    const runs = open(scene.app, 'open', 30_000)
    const { id } = await scene.app.submit('open', {})
    const worker = await scene.worker()
    await worker.tick()
    scene.clock.block(40_000)
    await pass(30_000)
    expect(only(runs).stoppedMs).toBeNull()
    only(runs).end('kept')
    await pass(100)
    expect(await scene.job(id)).toMatchObject({ status: 'complete', attempt: 1, result: '"kept"' })
  })

  test('that is never answered is asked again, so that the lease is kept when the store answers again', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    const runs = open(app, 'open', 30_000)
    const { id } = await app.submit('open', {})
    const worker = await scene.worker({}, app)
    await worker.tick()
    faulty.set('silent', 'renew')
    await pass(15_000)
    faulty.set('well', 'renew')
    await pass(60_000)
    expect(only(runs).stoppedMs).toBeNull()
    only(runs).end('kept')
    await pass(100)
    expect(await scene.job(id)).toMatchObject({ status: 'complete', attempt: 1, result: '"kept"' })
  })

  test('that is never answered is not repeated more often than every third of the lease', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    open(app, 'open', 30_000)
    await app.submit('open', {})
    const worker = await scene.worker({}, app)
    await worker.tick()
    faulty.set('silent', 'renew')
    const before = faulty.timesOf('renew').length
    await pass(29_000)
    expect(faulty.timesOf('renew').length - before).toBe(2)
  })

  test('is trusted from when it was asked, not from its answer', async () => {
    const faulty = new Faulty(scene)
    faulty.lateMs = 9_000
    const app = scene.newApp({ store: faulty.store })
    const runs = open(app, 'open', 30_000)
    await app.submit('open', {})
    const worker = await scene.worker({}, app)
    await worker.tick()
    faulty.set('late', 'renew')
    await pass(12_000)
    const askedMs = faulty.timesOf('renew').at(-1) as number
    faulty.set('silent', 'renew')
    await pass(60_000)
    expect(only(runs).stoppedMs).toBe(askedMs + 30_000)
  })

  test('whose answer comes after its round was given up still counts, from when it was asked', async () => {
    const faulty = new Faulty(scene)
    faulty.lateMs = 15_000
    const app = scene.newApp({ store: faulty.store })
    const runs = open(app, 'open', 30_000)
    await app.submit('open', {})
    const worker = await scene.worker({}, app)
    await worker.tick()
    faulty.set('late', 'renew')
    await pass(10_100)
    const askedMs = faulty.timesOf('renew').at(-1) as number
    faulty.set('silent', 'renew')
    await pass(60_000)
    expect(only(runs).stoppedMs).toBe(askedMs + 30_000)
  })

  test('whose late answer says that the job is lost stops the handler', async () => {
    const faulty = new Faulty(scene)
    faulty.lateMs = 15_000
    const app = scene.newApp({ store: faulty.store })
    const runs = open(app, 'open', 60_000)
    const { id } = await app.submit('open', {})
    const worker = await scene.worker({}, app)
    await worker.tick()
    await scene.app.markFailed(id, { actor: 'op', reason: 'wrong input' })
    faulty.set('late', 'renew')
    await pass(34_000)
    expect(only(runs).stoppedMs).toBeNull()
    faulty.set('silent', 'renew')
    await pass(2_000)
    expect(only(runs).reason).toBeInstanceOf(LeaseLost)
  })

  test('is asked for at a third of each lease, for leases of different length together', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    const short = open(app, 'short', 3_000)
    const long = open(app, 'long', 30_000)
    await app.submit('short', {})
    await app.submit('long', {})
    const worker = await scene.worker({}, app)
    await worker.tick()
    // Two of three renewals fail, in both lengths.
    for (let i = 0; i < 30; i++) {
      faulty.set(i % 3 === 2 ? 'well' : 'refused', 'renew')
      await pass(900)
    }
    expect([only(short).stoppedMs, only(long).stoppedMs]).toEqual([null, null])
  })

  test('is asked for three times in a lease, and not more', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    const runs = open(app, 'open', 30_000)
    await app.submit('open', {})
    const worker = await scene.worker({}, app)
    await worker.tick()
    const before = faulty.timesOf('renew').length
    await pass(300_000)
    expect(faulty.timesOf('renew').length - before).toBeGreaterThanOrEqual(27)
    expect(faulty.timesOf('renew').length - before).toBeLessThanOrEqual(30)
    expect(only(runs).stoppedMs).toBeNull()
  })

  test('with progress is sent at most once a second', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    const runs = open(app, 'open', 60_000)
    await app.submit('open', {})
    const worker = await scene.worker({}, app)
    await worker.tick()
    const before = faulty.timesOf('renew').length
    for (let i = 1; i <= 100; i++) {
      only(runs).attempt.progress(i / 100)
      await pass(100)
    }
    const sent = faulty.timesOf('renew').length - before
    expect(sent).toBeGreaterThanOrEqual(9)
    expect(sent).toBeLessThanOrEqual(10)
  })

  test('is sent by a worker without jobs, so that it is not taken for dead', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    open(app, 'open', 30_000)
    const worker = await scene.worker({}, app)
    await worker.tick()
    const before = faulty.timesOf('renew').length
    await pass(60_000)
    const sent = faulty.timesOf('renew').length - before
    expect(sent).toBeGreaterThanOrEqual(5)
    expect(sent).toBeLessThanOrEqual(6)
  })

  test('that is never answered does not delay the renewal of a shorter lease', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    const long = open(app, 'long', 60_000)
    const short = open(app, 'short', 3_000)
    await app.submit('long', {})
    const worker = await scene.worker({}, app)
    await worker.tick()
    faulty.set('silent', 'renew', 'cancellations')
    await pass(20_100)
    faulty.set('well', 'renew')
    await app.submit('short', {})
    await pass(60_000)
    expect([only(long).stoppedMs, only(short).stoppedMs]).toEqual([null, null])
  })

  test('that failed tells the progress again that it could not write', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    const runs = open(app, 'open', 30_000)
    const { id } = await app.submit('open', {})
    const worker = await scene.worker({}, app)
    await worker.tick()
    await pass(1_000)
    for (const form of ['refused', 'silent'] as const) {
      faulty.set(form, 'renew')
      const fraction = form === 'refused' ? 0.25 : 0.5
      only(runs).attempt.progress(fraction)
      await pass(2_000)
      faulty.set('well', 'renew')
      await pass(15_000)
      expect((await scene.job(id)).progress).toBe(fraction)
    }
  })
})

describe('a job claimed ahead', () => {
  test('is dropped at the end of its lease and never begun by this worker', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    const begun: string[] = []
    app.job('quick', { policy: { orphan: 'requeue', lease: { ttl: '30s' } }, run: () => void begun.push('quick') })
    const runs = open(app, 'open', 30_000)
    const worker = await scene.worker({ concurrency: 1 }, app)
    for (let i = 0; i < 3; i++) {
      await app.submitMany('quick', Array(50).fill({}))
      await scene.clock.advance(1)
      await worker.tick()
    }
    begun.length = 0
    await app.submit('open', {})
    await app.submitMany('quick', Array(5).fill({}))
    await worker.tick()
    expect(worker.held).toBeGreaterThan(1)
    faulty.set('silent', ...METHODS)
    await pass(31_000)
    only(runs).end()
    await pass(1_000)
    expect(begun).toEqual([])
    expect(only(runs).stoppedMs).not.toBeNull()
  })
})

describe('an outcome', () => {
  test.each(['unknown', 'late', 'silent', 'refused'] as const)(
    'whose close is %s is not lost, and the job ends once',
    async (form) => {
      const faulty = new Faulty(scene)
      faulty.lateMs = 25_000
      const told: string[] = []
      const app = scene.newApp({ store: faulty.store })
      const runs = open(app, 'open', 30_000)
      const { id } = await app.submit('open', {})
      const worker = await scene.worker({ tell: ({ answer }) => told.push(answer) }, app)
      await worker.tick()
      faulty.set(form, 'close')
      only(runs).end('done')
      await pass(14_000)
      faulty.set('well', 'close')
      await pass(60_000)
      expect(await scene.job(id)).toMatchObject({ status: 'complete', attempt: 1, result: '"done"' })
      expect(told).toHaveLength(1)
      expect(worker.held).toBe(0)
    },
  )

  test('whose close is never answered does not keep later outcomes from being recorded', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    const runs = open(app, 'open', 30_000)
    const jobs = await app.submitMany('open', [{}, {}])
    const worker = await scene.worker({}, app)
    await worker.tick()
    faulty.set('silent', 'close')
    runs[0]?.end('first')
    await pass(100)
    faulty.set('well', 'close')
    runs[1]?.end('second')
    await pass(15_000)
    for (const { id } of jobs) expect(await scene.status(id)).toBe('complete')
  })
})

describe('the start of an attempt', () => {
  test('that is never answered is told again: a running job must not pass for one that never started', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    const runs = open(app, 'open', 30_000)
    const { id } = await app.submit('open', {})
    const worker = await scene.worker({}, app)
    faulty.set('silent', 'start')
    await worker.tick()
    await pass(1_000)
    faulty.set('well', 'start')
    await pass(15_000)
    expect((await scene.job(id)).startedAtMs).not.toBeNull()
    expect(only(runs).stoppedMs).toBeNull()
  })

  test('that must be recorded first and is never answered begins nothing, and frees the slot', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    const runs = open(app, 'open', 5_000)
    const { id } = await app.submit('open', {})
    const first = await scene.worker({}, app)
    await first.tick()
    const stopping = first.stop({ graceMs: 0 })
    await pass(1_000)
    await stopping
    // It was given back once, so its next start is recorded before it begins.
    const worker = await scene.worker({ concurrency: 1 }, app)
    faulty.set('silent', 'start')
    void worker.tick()
    await turns()
    expect(await scene.job(id)).toMatchObject({ status: 'processing', attempt: 2 })
    faulty.set('silent', 'renew')
    const { id: next } = await app.submit('open', {})
    await pass(6_000)
    expect(runs.map(({ attempt }) => attempt.jobId)).toEqual([id, next])
  })
})

describe('a claim', () => {
  test('that is never answered is asked again, and the jobs of a late answer are run', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    const runs = open(app, 'open', 60_000)
    const worker = await scene.worker({}, app)
    await worker.tick()
    faulty.set('silent', 'claim')
    await pass(200)
    const { id } = await app.submit('open', {})
    faulty.lateMs = 20_000
    faulty.set('late', 'claim')
    await pass(10_500)
    expect(runs).toHaveLength(0)
    faulty.set('well', 'claim')
    await pass(25_000)
    only(runs).end('late but ours')
    await pass(100)
    expect(await scene.job(id)).toMatchObject({ status: 'complete', attempt: 1, result: '"late but ours"' })
  })
})

describe('stop', () => {
  const ended = async (worker: Worker, graceMs: number, withinMs: number) => {
    let isDone = false
    const stopping = worker.stop({ graceMs }).then(() => {
      isDone = true
    })
    for (let passedMs = 0; !isDone && passedMs < withinMs; passedMs += 100) await pass(100)
    expect(isDone).toBe(true)
    await stopping
  }

  test.each([
    ['in the middle of a handler', 1_000],
    ['without a limit for handlers', Number.POSITIVE_INFINITY],
  ])('ends on a store that never answers, %s', async (_when, graceMs) => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    const runs = open(app, 'open', 30_000)
    const timed = open(app, 'timed', 30_000)
    await app.submit('open', {})
    await app.submit('timed', {})
    const worker = await scene.worker({}, app)
    await worker.tick()
    faulty.set('silent', ...METHODS)
    only(timed).end('never recorded')
    await pass(1_000)
    await ended(worker, graceMs, 80_000)
    expect(only(runs).reason).toBeInstanceOf(graceMs === 1_000 ? ShuttingDown : LeaseLost)
  })

  test('ends on a store that never answers a claim', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    open(app, 'open', 30_000)
    const worker = await scene.worker({}, app)
    await worker.tick()
    faulty.set('silent', ...METHODS)
    await pass(1_000)
    await ended(worker, 30_000, 80_000)
  })
})
