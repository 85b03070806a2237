import type { Duty } from '../worker/duty.ts'
import type { AppHost } from './host.ts'

const EVERY_MS = 10_000

/** Records that a pause which was to end by itself has ended. The jobs do not wait for it: a claim looks at the time. */
export function pauseEnding({ store }: AppHost): Duty {
  return {
    name: 'pauses of queues',
    everyMs: EVERY_MS,
    run: async () => (await store()).endPauses(),
    nextAtMs: async () => {
      const pauses = (await (await store()).queues()).flatMap(({ paused }) => paused?.untilMs ?? [])
      return pauses.length === 0 ? null : Math.min(...pauses)
    },
  }
}
