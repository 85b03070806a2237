import { obstacleTo } from '../core/replay-obstacle.ts'
import { prepareItem } from '../operations/replay-letter.ts'
import type { DecidedItem, ReplayTurn } from '../store/replays.ts'
import type { Duty } from '../worker/duty.ts'
import type { AppHost } from './host.ts'

const EVERY_MS = 200
/** Long enough to ask the types about that many letters; the delay when a process dies in the middle of it. */
const TURN_MS = 5_000
const LETTERS_PER_STEP = 50
/** Then other chores get their turn; the next round follows at once. */
const STEPS_MAX = 100

/**
 * Works off the replays that people have started. Any number of processes do this at once: the store gives one of them
 * the turn, and compares again when the letters become jobs.
 */
export function bulkReplay(host: AppHost): Duty {
  return {
    name: 'replaying dead letters',
    everyMs: EVERY_MS,
    nextAtMs: async () => (await host.store()).nextReplayAtMs(),
    async run() {
      const store = await host.store()
      for (let steps = 0; steps < STEPS_MAX; steps++) {
        const turn = await store.takeReplayTurn({ types: host.types(), turnMs: TURN_MS, limit: LETTERS_PER_STEP })
        if (turn === null) return
        if (turn.items.length === 0) continue
        const { submitted, skipped } = await store.advanceReplay({ id: turn.id, decided: await decide(host, turn) })
        host.log.info({ replay_id: turn.id, submitted, skipped }, 'dead letters were replayed')
      }
    },
  }
}

async function decide(host: AppHost, { id: replay, patch, by, items }: ReplayTurn): Promise<DecidedItem[]> {
  const decided: DecidedItem[] = []
  for (const { position, job: id, letter } of items) {
    if (letter === null) {
      const gone = obstacleTo(null, 0, false)
      if (gone !== null) decided.push({ position, decision: { skip: gone } })
      continue
    }
    decided.push({ position, decision: await prepareItem(host, letter, { patch, by, replay, id }) })
  }
  return decided
}
