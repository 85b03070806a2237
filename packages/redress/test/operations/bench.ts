import { z } from 'zod'
import { type App, failureCodes, type PolicyInput, RedressError, redress } from '../../src/index.ts'
import { VirtualClock } from '../../src/runtime/clock.ts'
import type { Store } from '../../src/store/contract/store.ts'
import type { Worker } from '../../src/worker/worker.ts'

/** An app with one job type on a store in memory, a worker that moves when told, and a clock that stands still. */
export interface Bench {
  app: App
  clock: VirtualClock
  worker: Worker
  store: Store
  /** Submits a job whose attempts end as named: a failure code, 'ok', or 'hang'. */
  submit(outcomes: string[], options?: Parameters<App['submit']>[2]): Promise<string>
  /** Submits it and lets it go to its end. */
  finish(outcomes: string[], options?: Parameters<App['submit']>[2]): Promise<string>
  /** Claims what is due and begins it, up to the record that it began. */
  begin(): Promise<void>
  /** Works until nothing is due any more, moving the clock over the delays of retries. */
  work(): Promise<void>
}

const codes = failureCodes({
  GW_5XX: { fault: 'dependency', retry: 'transient', message: 'It kept failing.', waiting: 'We will try again.' },
  GW_4XX: { fault: 'caller', retry: 'never', message: 'It does not take this.' },
  REFUSED: { fault: 'caller', retry: 'never', message: 'It was refused.' },
})

export const WHO = { actor: 'ann', reason: 'the gateway is back' }

export async function makeBench(
  policy: PolicyInput = {},
  wrap: (store: Store) => Store = (store) => store,
): Promise<Bench> {
  const clock = new VirtualClock()
  const own = redress({ store: 'sqlite::memory:', clock })
  const store = wrap(await own.store())
  const app = redress({ store, clock, chance: () => 0.5 })
  app.job('step', {
    input: z.object({ outcomes: z.array(z.string()), note: z.string().optional() }),
    codes,
    policy,
    admit: ({ note }, submission) => {
      if (note === 'refuse') submission.fail('REFUSED')
    },
    run: ({ outcomes }, attempt) => {
      const outcome = outcomes[attempt.number - 1] ?? 'ok'
      if (outcome === 'ok') return { attempt: attempt.number }
      if (outcome !== 'hang') return attempt.fail(outcome as 'GW_5XX')
      return new Promise((_, reject) => attempt.signal.addEventListener('abort', () => reject(attempt.signal.reason)))
    },
  })
  const worker = await app.makeWorker()
  const bench: Bench = {
    app,
    clock,
    worker,
    store,
    submit: async (outcomes, options) => (await app.submit('step', { outcomes }, options)).id,
    finish: async (outcomes, options) => {
      const id = await bench.submit(outcomes, options)
      await bench.work()
      return id
    },
    begin: async () => {
      await worker.tick()
      // The start of an attempt that lasts is told with the turn after it.
      await worker.tick()
    },
    work: async () => {
      for (let i = 0; i < 20; i++) {
        await worker.tick()
        await clock.advance(60_000)
      }
    },
  }
  return bench
}

/** The error that a promise was refused with. */
export async function refusal(promise: Promise<unknown>): Promise<RedressError> {
  const answer = await promise.then(
    () => null,
    (error: unknown) => error,
  )
  if (answer instanceof RedressError) return answer
  throw new Error(`expected a refusal, and got ${answer === null ? 'none' : String(answer)}`)
}
