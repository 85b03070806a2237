import { obstacleTo } from '../core/dead-letter/replay.ts'
import { ENGINE_CODES } from '../core/failure/taxonomy.ts'
import { noticesOfFailure } from '../core/notice/notice.ts'
import { Metrics } from '../metrics/metrics.ts'
import { prepareItem } from '../operations/dead-letters/replay-letter.ts'
import { foldAll } from '../store/contract/failure-groups.ts'
import type { DecidedItem, ReplayTurn } from '../store/contract/replays.ts'
import { expired } from '../worker/attempt/outcome.ts'
import type { Duty } from '../worker/duty.ts'
import { batchExpiry } from './batches.ts'
import type { Channels } from './channels.ts'
import type { Dependencies } from './dependencies.ts'
import type { AppHost } from './host.ts'
import type { DeclaredTypes } from './jobs/declared.ts'
import type { ScheduleTicker } from './schedules/ticker.ts'

/** The duties of an app: every worker runs all of them beside its jobs. */
export function dutiesOf(
  host: AppHost,
  types: DeclaredTypes,
  schedules: ScheduleTicker,
  channels: Channels,
  dependencies: Dependencies,
  metrics: Metrics,
): Duty[] {
  return [
    pauseEnding(host),
    batchExpiry(host),
    jobExpiry(host, types),
    keyForgetting(host),
    bulkReplay(host),
    failureCounting(host),
    Metrics.duty(metrics),
    schedules,
    ...channels.duties(),
    dependencies,
  ]
}

const REPLAY_MS = 200
/** Long enough to ask the types about one step of letters; also the delay when a process dies in that step. */
const TURN_MS = 5_000
const LETTERS_PER_STEP = 50
/** Then other duties get their turn; the next round follows at once. */
const STEPS_MAX = 100

/**
 * Runs the replays that people have started. Any number of processes do this at once: the store gives one of them
 * the turn, and compares again when the letters become jobs.
 */
function bulkReplay(host: AppHost): Duty {
  return {
    name: 'replaying dead letters',
    everyMs: REPLAY_MS,
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

const COUNT_MS = 15_000

/** Counts failures into their groups. A reader of the groups counts the rest, so this keeps that rest small. */
function failureCounting(host: AppHost): Duty {
  return {
    name: 'counting failures',
    everyMs: COUNT_MS,
    run: async () => foldAll(await host.store()),
  }
}

const EXPIRY_MS = 5_000
const EXPIRED_PER_STEP = 100

/**
 * Fails jobs whose time to live is over while nothing claims them: their queue is paused, their breaker is open, or no
 * worker runs their type. So this is done for every type of the store.
 */
function jobExpiry(host: AppHost, declared: DeclaredTypes): Duty {
  return {
    name: 'expiring waiting jobs',
    everyMs: EXPIRY_MS,
    nextAtMs: async () => (await host.store()).nextExpiryAtMs(),
    async run() {
      const store = await host.store()
      for (let found = EXPIRED_PER_STEP; found === EXPIRED_PER_STEP; ) {
        const jobs = await store.expiredJobs({ limit: EXPIRED_PER_STEP })
        found = jobs.length
        if (found === 0) return
        const policies = new Map((await store.types()).map(({ name, policy }) => [name, policy]))
        const failures = jobs.flatMap((job) => {
          const policy = policies.get(job.type)
          if (policy === undefined) return []
          const codes = declared.get(job.type)?.facts.codes ?? ENGINE_CODES
          const { failure, spent, deadLetter } = expired(job, policy, codes, job.nowMs)
          const notices = noticesOfFailure(job, failure, policy)
          return [
            { key: job.key, attempt: job.attempt, failure, spent, deadLetter, ...(notices.length > 0 && { notices }) },
          ]
        })
        const answers = await store.failExpired({ jobs: failures })
        const count = answers.filter((answer) => answer === 'failed').length
        if (count > 0) host.log.warn({ count }, 'jobs expired before an attempt began')
        if (count === 0) return
      }
    },
  }
}

const FORGET_MS = 60_000
const KEYS_PER_STEP = 500

/** Removes the keys of `debounce`, `throttle` and `singleton` that no submission can meet any more. */
function keyForgetting({ store }: AppHost): Duty {
  return {
    name: 'forgetting keys of submissions',
    everyMs: FORGET_MS,
    async run() {
      while ((await (await store()).forgetKeys({ limit: KEYS_PER_STEP })) === KEYS_PER_STEP);
    },
  }
}

const PAUSES_MS = 10_000

/** Records the end of pauses that have a time limit. The jobs do not wait for this: a claim looks at the time. */
function pauseEnding({ store }: AppHost): Duty {
  return {
    name: 'pauses of queues',
    everyMs: PAUSES_MS,
    run: async () => (await store()).endPauses(),
    nextAtMs: async () => {
      const pauses = (await (await store()).queues()).flatMap(({ paused }) => paused?.untilMs ?? [])
      return pauses.length === 0 ? null : Math.min(...pauses)
    },
  }
}
