import { ENGINE_CODES, type Taxonomy } from '../../core/failure/taxonomy.ts'
import { withNotices } from '../../core/notice/notice.ts'
import { asForwardOnly, type Policy } from '../../core/policy/policy.ts'
import { DAY_MS, formatMs } from '../../core/text/duration.ts'
import type { Log } from '../../runtime/log.ts'
import type { Pruned, Reclaim, Stalled, Store } from '../../store/contract/store.ts'
import { changeForLost } from '../attempt/outcome.ts'

export interface MaintenanceReport {
  requeued: number
  failed: number
  cancelled: number
  reported: number
}

interface MaintenanceOptions {
  store: Store
  log: Log
  /** The failure codes of a type, where this process has declared it. */
  codesOf: (type: string) => Taxonomy | undefined
  /** Whether this process has the outcome of the attempt and sends it again until the store takes it. */
  keepsOutcomeOf?: (job: Pick<Stalled, 'key' | 'attempt'>) => boolean
}

const STALLED_PER_STEP = 500
const PRUNE_PER_STEP = 1_000
/** How long an ended token can still be looked up. The audit trail keeps it for ever. */
const CREDENTIALS_KEPT_MS = 30 * DAY_MS
/** Stands for "no limit" where no type has a start timeout. */
const NO_START_TIMEOUT_MS = Number.MAX_SAFE_INTEGER / 2

/**
 * Reclaims jobs whose worker is lost, and removes jobs past their retention. Any number of processes may do this at
 * once, because each step compares before it changes.
 */
export class Maintenance {
  readonly #options: MaintenanceOptions

  constructor(options: MaintenanceOptions) {
    this.#options = options
  }

  /** Expired leases, claims that never started, stuck attempts. Repeats while it finds full steps. */
  async reclaimStalled(): Promise<MaintenanceReport> {
    const report = await this.#reclaimStalled()
    const count = Object.values(report).reduce((sum, jobs) => sum + jobs, 0)
    if (count > 0) this.#options.log.warn({ count, ...report }, 'stalled jobs were reclaimed or reported')
    return report
  }

  async #reclaimStalled(): Promise<MaintenanceReport> {
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
        // A store that refused the renewal a moment ago may take the reclaim: the work would be done twice.
        if (policy === undefined || this.#options.keepsOutcomeOf?.(job) === true) return []
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
          problemOf(job),
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
    // The decision about a job that never started must not apply to one that has started since.
    const expired = lost.isStarted ? 'expired' : 'expired-unstarted'
    const expect = job.isExpired ? expired : isStuck ? 'stuck' : 'unstarted'
    return [withNotices({ key, attempt, expect, change }, job, policy, job.worker)]
  }

  /** Walks the whole store once, in short transactions, so that others can write in between. */
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

function problemOf({ isExpired, startedAtMs }: Stalled): string {
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
