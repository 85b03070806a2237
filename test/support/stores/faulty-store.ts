import type { App } from '../../../packages/redress/src/app/app.ts'
import type { WorkOptions } from '../../../packages/redress/src/app/workers.ts'
import type { PolicyInput } from '../../../packages/redress/src/core/policy/policy.ts'
import type { Store } from '../../../packages/redress/src/store/contract/store.ts'
import type { Attempt } from '../../../packages/redress/src/worker/attempt/attempt.ts'
import type { Scene } from '../scene.ts'

/** `late`: done at once, answered after `lateMs`. `unknown`: done, and answered with an error. */
export type Form = 'well' | 'refused' | 'unknown' | 'late' | 'silent'
export const FAULTS = ['refused', 'unknown', 'late', 'silent'] as const

export type Method =
  | 'renew'
  | 'claim'
  | 'close'
  | 'start'
  | 'report'
  | 'cancellations'
  | 'dismiss'
  | 'stalled'
  | 'standings'
  | 'countCalls'
export const METHODS: readonly Method[] = [
  ...([
    'renew',
    'claim',
    'close',
    'start',
    'report',
    'cancellations',
    'dismiss',
    'stalled',
    'standings',
    'countCalls',
  ] as const),
]

/** The scene's store, with calls that fail as a test says. */
export class Faulty {
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
export interface Run {
  attempt: Attempt
  /** When its signal fired, and why. */
  stoppedMs: number | null
  reason: unknown
  end: (output?: unknown) => void
}

/** A job type whose runs stay open until the test ends them, and note when their signal fires. */
export function openRuns(
  clock: Scene['clock'],
  app: App,
  name: string,
  ttlMs: number,
  policy: PolicyInput = {},
): Run[] {
  const runs: Run[] = []
  app.job(name, {
    policy: { orphan: 'requeue', timeout: { attempt: null }, ...policy, lease: { ttl: ttlMs } },
    run: (_: unknown, attempt) =>
      new Promise((end) => {
        const run: Run = { attempt: attempt as Attempt, stoppedMs: null, reason: null, end }
        attempt.signal.addEventListener('abort', () => {
          run.stoppedMs = clock.monoMs()
          run.reason = attempt.signal.reason
        })
        runs.push(run)
      }),
  })
  return runs
}

export function only(runs: readonly Run[]): Run {
  if (runs.length !== 1) throw new Error(`there are ${runs.length} runs, not one`)
  return runs[0] as Run
}

/** A worker that holds one open run of a job, over a store with faults. */
export async function holdOneRun(
  scene: Scene,
  ttlMs: number,
  { lateMs, policy, worker: options = {} }: { lateMs?: number; policy?: PolicyInput; worker?: WorkOptions } = {},
) {
  const faulty = new Faulty(scene)
  if (lateMs !== undefined) faulty.lateMs = lateMs
  const app = scene.newApp({ store: faulty.store })
  const runs = openRuns(scene.clock, app, 'open', ttlMs, policy)
  const { id } = await app.submit('open', {})
  const worker = await scene.worker(options, app)
  await worker.tick()
  return { faulty, app, runs, id, worker }
}
