import { DAY_MS, formatMs } from '../core/duration.ts'
import { asForwardOnly, type Policy } from '../core/policy.ts'
import { ENGINE_CODES, type Taxonomy } from '../core/taxonomy.ts'
import type { Log } from '../runtime/log.ts'
import type { Pruned, Reclaim, Stalled, Store } from '../store/store.ts'
import { toldOf } from './notices.ts'
import { changeForLost } from './orphan.ts'

export interface MaintenanceReport {
  requeued: number
  failed: number
  cancelled: number
  reported: number
}

interface MaintenanceOptions {
  store: Store
  log: Log
  /** Where this process knows a type's own taxonomy, its failures get that copy. */
  codesOf: (type: string) => Taxonomy | undefined
}

const STALLED_PER_STEP = 500
const PRUNE_PER_STEP = 1_000
/** So long somebody may still ask what became of a token; what was done about it is in the audit trail for ever. */
const CREDENTIALS_KEPT_MS = 30 * DAY_MS
/** No type waits longer than this for a claimed job to start, so no younger one need be looked at. */
const NO_START_TIMEOUT_MS = Number.MAX_SAFE_INTEGER / 2

/**
 * What nobody in particular has to do: looks after jobs whose worker is gone, and removes what is past its retention.
 * Any number of processes may run it at once, because each step compares before it changes.
 */
export class Maintenance {
  readonly #options: MaintenanceOptions

  constructor(options: MaintenanceOptions) {
    this.#options = options
  }

  /** Orphans and claims that never started. Repeats while a full step was found, so that a crash of many is one pass. */
  async lookAfterStalled(): Promise<MaintenanceReport> {
    const report = await this.#lookAfterStalled()
    const count = Object.values(report).reduce((sum, jobs) => sum + jobs, 0)
    if (count > 0) this.#options.log.warn({ count, ...report }, 'stuck jobs were looked after')
    return report
  }

  async #lookAfterStalled(): Promise<MaintenanceReport> {
    const report: MaintenanceReport = { requeued: 0, failed: 0, cancelled: 0, reported: 0 }
    const { store, log } = this.#options
    const policies = new Map((await store.types()).map((type) => [type.name, type.policy]))
    const startTimeouts = [...policies.values()].map(({ lease }) => lease.startTimeoutMs ?? NO_START_TIMEOUT_MS)
    const unstartedForMs = Math.min(NO_START_TIMEOUT_MS, ...startTimeouts)
    const stuck = [...policies].flatMap(([type, { orphan }]) =>
      orphan.stuckAfterMs === null ? [] : [{ type, startedForMs: orphan.stuckAfterMs }],
    )
    for (;;) {
      const stalled = await store.stalled({ unstartedForMs, stuck, limit: STALLED_PER_STEP })
      const reclaims = stalled.flatMap((job) => {
        const policy = policies.get(job.type)
        if (policy === undefined) return []
        return this.#reclaimFor(job, job.isForwardOnly ? asForwardOnly(policy) : policy)
      })
      if (reclaims.length === 0) return report
      const answers = await store.reclaim({ reclaims })
      let closed = 0
      for (const [i, answer] of answers.entries()) {
        if (answer === 'lost') continue
        closed++
        count(report, reclaims[i] as Reclaim)
      }
      for (const job of stalled) {
        log.warn(
          {
            job_id: job.id,
            type: job.type,
            attempt: job.attempt,
            worker_id: job.worker,
            lease_until_ms: job.leaseUntilMs,
          },
          plightOf(job),
        )
      }
      if (stalled.length < STALLED_PER_STEP || closed === 0) return report
    }
  }

  #reclaimFor(job: Stalled, policy: Policy): Reclaim[] {
    const unstartedMs = job.startedAtMs === null ? job.nowMs - job.claimedAtMs : 0
    const isUnstarted = policy.lease.startTimeoutMs !== null && unstartedMs >= policy.lease.startTimeoutMs
    const { stuckAfterMs } = policy.orphan
    const isStuck =
      !job.isExpired && stuckAfterMs !== null && job.startedAtMs !== null && job.nowMs - job.startedAtMs >= stuckAfterMs
    if (!job.isExpired && !isUnstarted && !isStuck) return []
    const { key, attempt } = job
    const lost = {
      type: job.type,
      attempt,
      spent: job.spent,
      queuedAtMs: job.queuedAtMs,
      isStarted: job.startedAtMs !== null,
      isStuck,
      isCancelRequested: job.isCancelRequested,
      detail: describeStalled(job),
      context: { worker: job.worker, leaseUntilMs: job.leaseUntilMs },
    }
    const codes = this.#options.codesOf(job.type) ?? ENGINE_CODES
    const change = changeForLost(lost, policy, codes, job.nowMs)
    // What was decided about a job that never started must not befall one that has started since.
    const expired = lost.isStarted ? 'expired' : 'expired-unstarted'
    const told = toldOf(job, change, policy, job.worker)
    return [{ key, attempt, expect: job.isExpired ? expired : isStuck ? 'stuck' : 'unstarted', change, ...told }]
  }

  /** Walks the whole store once, in short transactions with room between them for everybody else. */
  async prune(): Promise<number> {
    const { store, log } = this.#options
    const rules = (await store.types()).map(({ name, policy }) => ({ type: name, ...policy.retention }))
    let removed = 0
    let letters = 0
    let after: number | null = 0
    while (after !== null) {
      const step: Pruned = await store.prune({
        rules,
        after,
        limit: PRUNE_PER_STEP,
      })
      removed += step.removed
      letters += step.letters
      after = step.cursor
    }
    const credentials = await store.pruneCredentials({ deadForMs: CREDENTIALS_KEPT_MS, limit: PRUNE_PER_STEP })
    if (credentials > 0) log.info({ credentials }, 'tokens, sessions and links that ended long ago were removed')
    if (removed > 0) log.info({ removed }, 'jobs past their retention were removed')
    if (letters > 0) log.info({ letters }, 'dead letters past their retention were removed')
    return removed
  }
}

function plightOf({ isExpired, startedAtMs }: Stalled): string {
  if (isExpired) return 'the worker of this job is gone'
  return startedAtMs === null ? 'a claimed job was not started in time' : 'a job exceeds orphan.stuckAfter: it is stuck'
}

function describeStalled(job: Stalled): string {
  const since = `${formatMs(job.nowMs - job.claimedAtMs)} ago`
  const began = job.startedAtMs === null ? 'and never started it' : 'and started it'
  const lease = job.isExpired
    ? `its lease ran out ${formatMs(job.nowMs - job.leaseUntilMs)} ago`
    : 'it still holds the lease'
  return `worker ${job.worker} claimed attempt ${job.attempt} ${since} ${began}; ${lease}`
}

function count(report: MaintenanceReport, { change }: Reclaim): void {
  if (change.to === 'queued') report.requeued++
  else if (change.to === 'failed') report.failed++
  else if (change.to === 'cancelled') report.cancelled++
  else report.reported++
}
