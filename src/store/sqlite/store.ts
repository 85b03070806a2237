import { RedressError } from '../../core/errors.ts'
import { FOLD_PER_STEP } from '../failure-groups.ts'
import { jobsOf } from '../job-search.ts'
import type * as api from '../store.ts'
import { openAccounts } from './accounts.ts'
import { openActivity } from './activity.ts'
import { openAudit } from './audit.ts'
import { openBacklog } from './backlog.ts'
import { openBatchReading } from './batch-reading.ts'
import { openBatchStore } from './batch-store.ts'
import { openBatches } from './batches.ts'
import { openBreakerGate } from './breaker-gate.ts'
import { openBreakerRows } from './breaker-rows.ts'
import { openBreakers } from './breakers.ts'
import { openClaiming } from './claiming.ts'
import { openClosing } from './closing.ts'
import { type Connection, openConnection } from './connection.ts'
import type { SqliteContext } from './context.ts'
import { openDeadLetters, openLetters } from './dead-letters.ts'
import { openDepths } from './depths.ts'
import { isBusy, storeError } from './errors.ts'
import { openExpiring } from './expiring.ts'
import { openFailureGroups } from './failure-groups.ts'
import { openFeed } from './feed.ts'
import { openGates } from './gates.ts'
import { GroupCommit } from './group-commit.ts'
import { openHistory } from './history.ts'
import { openIntervening } from './intervening.ts'
import { openLetterMarks } from './letter-marks.ts'
import { openLimits } from './limits.ts'
import { openLongReads } from './long-reads.ts'
import { openMeters } from './meters.ts'
import { openNotices } from './notices.ts'
import { openPruning } from './pruning.ts'
import { openQueues } from './queues.ts'
import { openReading } from './reading.ts'
import { openReplays } from './replays.ts'
import { openRetryMeters } from './retry-meters.ts'
import { openSchedules } from './schedules.ts'
import { Slices } from './slices.ts'
import { openSubmitIn } from './submit-in.ts'
import { openSubmitting } from './submitting.ts'
import { openTypes, type Types } from './types.ts'

export interface SqliteOptions {
  /** A file, made if it is not there, or ':memory:'. */
  path: string
  /** The store's time. Every process on a file must be given the same one; they are on one machine. */
  nowMs: () => number
  /** How long a call may wait for other processes on the same file. */
  busyMsMax?: number
}

const BUSY_MS_MAX = 10_000
const READ_RETRY_MS = 5

/** The embedded store: one file, any number of processes on one machine. */
export function openSqlite({ path, nowMs, busyMsMax = BUSY_MS_MAX }: SqliteOptions): api.Store {
  const connection = openConnection(path)
  const types = openTypes(connection)
  const history = openHistory(connection)
  // A job enters a batch, and a batch that settles may submit one.
  const batches = openBatches(connection, types, history, (job, atMs) => {
    hasNewWork = true
    return submitting.submit(job, atMs)
  })
  const submitting = openSubmitting(connection, types, history, batches)
  const breakerRows = openBreakerRows(connection, history)
  const breakerGate = openBreakerGate(breakerRows)
  const meters = openMeters(connection)
  const gates = openGates(connection, types, [openLimits(connection, meters), breakerGate])
  const retries = openRetryMeters(meters, types)
  const backlog = openBacklog(connection, types)
  const claiming = openClaiming(connection, types, gates, retries)
  const closing = openClosing(connection, history, batches, retries)
  const intervening = openIntervening(connection, history, closing, batches)
  const expiring = openExpiring(connection, history, closing)
  const pruning = openPruning(connection, types)
  const reading = openReading(connection, types, nowMs)

  // A worker with a name of its own comes back under it after a restart.
  const addWorker = connection.prepare(`
    INSERT INTO workers (id, host, pid, started_at, seen_at, types) VALUES (?1, ?2, ?3, ?4, ?4, ?5)
    ON CONFLICT (id) DO UPDATE SET host = ?2, pid = ?3, started_at = ?4, seen_at = ?4, types = ?5, stopped_at = NULL
    RETURNING key`)
  const seeWorker = connection.prepare('UPDATE workers SET seen_at = ?2, stopped_at = NULL WHERE key = ?1')
  const stopWorker = connection.prepare('UPDATE workers SET seen_at = ?2, stopped_at = ?2 WHERE key = ?1')

  const listeners = new Set<() => void>()
  const commitListeners = new Set<() => void>()
  let hasNewWork = false
  let isStopped = false
  const afterCommit = (): void => {
    for (const listener of commitListeners) listener()
    if (!hasNewWork) return
    hasNewWork = false
    hint()
  }
  const commits = new GroupCommit(connection.database, busyMsMax, afterCommit, () => backlog.forget())
  const hint = (): void => {
    for (const listener of listeners) listener()
  }

  const slices = new Slices()

  /**
   * Readers are never blocked in WAL mode, except while another process repairs the log after a crash. A caller that reads
   * page after page would block the event loop, because these reads await nothing: each turn has a limited time for reads.
   */
  const read = async <T>(doing: string, run: () => T): Promise<T> => {
    const readNow = (): T => {
      if (isStopped) throw new RedressError('STORE_STOPPED', `The store was stopped before ${doing}.`)
      return run()
    }
    for (let waitedMs = 0; ; waitedMs += READ_RETRY_MS) {
      try {
        return slices.isSpent ? await slices.later(readNow) : readNow()
      } catch (error) {
        if (!isBusy(error) || waitedMs > busyMsMax) throw storeError(error, doing)
        await new Promise((resolve) => setTimeout(resolve, READ_RETRY_MS))
      }
    }
  }

  /** Each step is a short transaction, and other requests get a turn in between. */
  const fillLimitKeys = async (): Promise<void> => {
    while (await read('looking for jobs without a limit key', types.isFilling)) {
      await commits.write('giving jobs their limit key', () => types.fillLimitKeys())
      await new Promise<void>((resolve) => setImmediate(resolve))
    }
  }

  const readInSteps = openLongReads(path, connection, read)

  const context: SqliteContext = {
    connection,
    types,
    history,
    nowMs,
    write: (doing, run) => commits.write(doing, run),
    read,
    readInSteps,
    hintWork: () => {
      hasNewWork = true
    },
  }
  const noticeStore = openNotices(context, (job, atMs) => submitting.submit(job, atMs))
  const letters = openLetters(context, openLetterMarks(connection), submitting.submit)
  const batchStore = openBatchStore(context, batches, openBatchReading(connection, types), backlog)

  const failureGroups = openFailureGroups(context)
  const submitIn = openSubmitIn({ path, types, nowMs, submittingOn: (on) => openSubmittingOn(on, types) })

  const close = (worker: api.WorkerKey, closes: readonly api.Close[]): api.CloseAnswer[] => {
    const atMs = nowMs()
    return closes.map((one) => {
      if (one.change.to === 'queued' || gates.hasLimited) hasNewWork = true
      return closing.close(one, worker, atMs)
    })
  }

  return {
    ...openAccounts(context),
    ...openActivity(context),
    ...openAudit(context),
    ...openBreakers(context, breakerRows),
    ...failureGroups.store,
    ...batchStore,
    ...openQueues(context, meters),
    ...openDeadLetters(context, letters),
    ...openDepths(context),
    ...openReplays(context, letters),
    ...noticeStore,
    ...openSchedules(context, (job, atMs) => submitting.submit(job, atMs)),
    ...openFeed(context, (listener) => {
      commitListeners.add(listener)
      return () => commitListeners.delete(listener)
    }),

    async register({ types: declared }) {
      await commits.write('declaring job types', () => {
        types.register(declared, nowMs())
        for (const { policy } of declared) if (policy.breaker !== null) breakerRows.declare(policy.breaker, nowMs())
      })
      await fillLimitKeys()
    },
    types: () => read('reading job types', types.all),

    enlist: ({ id, host, pid, types: served }) =>
      commits.write(
        'enlisting a worker',
        () => (addWorker.get(id, host, pid, nowMs(), JSON.stringify(served)) as { key: number }).key,
      ),
    dismiss: ({ worker }) => commits.write('dismissing a worker', () => void stopWorker.run(worker, nowMs())),
    workers: () => read('reading workers', reading.workers),

    async submit({ jobs }) {
      const submitted = await commits.write('submitting', () => {
        const atMs = nowMs()
        hasNewWork = true
        return backlog.within(jobs, () => jobs.map((job) => submitting.submit(job, atMs)))
      })
      if (submitted instanceof RedressError) throw submitted
      return submitted
    },

    async claim({ worker, lanes, max }) {
      const atMs = nowMs()
      const isWorthIt = max > 0 && (await read('looking for work', () => claiming.isWorthClaiming(lanes, atMs)))
      if (!isWorthIt)
        return {
          nowMs: atMs,
          leases: [],
          nextDueAtMs: await read('looking for work', () => claiming.nextDueAtMs(atMs, lanes)),
        }
      return commits.write('claiming', () => {
        const claimed = claiming.claim(worker, lanes, max, nowMs())
        const breakers = breakerGate.standings(claimed.nowMs)
        return breakers.length === 0 ? claimed : { ...claimed, breakers }
      })
    },

    start: ({ worker, attempts }) =>
      commits.write('marking attempts as started', () => {
        const atMs = nowMs()
        return { lost: attempts.filter((one) => closing.start(one, worker, atMs) === 'lost').map((one) => one.key) }
      }),

    renew: ({ worker, leases }) =>
      commits.write('renewing leases', () => {
        const atMs = nowMs()
        seeWorker.run(worker, atMs)
        const lost = leases.filter((one) => closing.renew(one, worker, atMs) === 'lost').map((one) => one.key)
        return { nowMs: atMs, lost }
      }),

    close: ({ worker, closes }) => commits.write('closing attempts', () => close(worker, closes)),
    closeNow: ({ worker, closes }) => commits.writeNow(() => close(worker, closes)),
    cancellations: ({ worker }) => read('looking for cancellations', () => reading.cancellations(worker)),

    stalled: ({ unstartedForMs, stuck = [], limit }) =>
      read('looking for stalled jobs', () => reading.stalled(nowMs(), unstartedForMs, stuck, limit)),
    reclaim: ({ reclaims }) =>
      commits.write('reclaiming', () => {
        const atMs = nowMs()
        hasNewWork = true
        return reclaims.map((one) => closing.reclaim(one, atMs))
      }),

    intervene: (params) =>
      commits.write('intervening', () => {
        hasNewWork = true
        return intervening.intervene(params, nowMs())
      }),

    expire: (params) => commits.write('noting what expired', () => expiring.expire(params, nowMs())),

    job: ({ id }) => read('reading a job', () => reading.job(id)),
    jobs: (filter) => jobsOf(filter, (part) => read('listing jobs', () => reading.page(part))),
    jobPage: (filter) => read('listing jobs', () => reading.page(filter)),
    countJobs: ({ max, ...filter }) => read('counting jobs', () => reading.count(filter, max)),
    countFailed: ({ max, ...filter }) => read('counting failed jobs', () => reading.countFailed(filter, max)),
    events: ({ id }) => read('reading events', () => reading.events(id)),
    failures: ({ id }) => read('reading failures', () => reading.failures(id)),
    counts: () => readInSteps('counting jobs', reading.counts),

    async prune({ rules, after, limit }) {
      // A process that died may have left some behind.
      if (after === 0) await fillLimitKeys()
      return commits.write('pruning', () => {
        // A failure that goes is counted first.
        failureGroups.fold(FOLD_PER_STEP)
        if (after === 0) for (const { name, policy } of types.known()) meters.forgetFull(name, policy.rate, nowMs())
        return pruning.prune(rules, after, limit, nowMs())
      })
    },

    submitIn({ executor, jobs }) {
      if (isStopped) throw new RedressError('STORE_STOPPED', 'The store was stopped before submitting.')
      const submitted = submitIn(executor, jobs)
      // Most transactions end in the turn that began them; then this comes just after the commit.
      setImmediate(hint)
      return submitted
    },
    hint,

    nowMs: async () => nowMs(),
    onWork(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    async stop() {
      if (isStopped) return
      isStopped = true
      await commits.stop()
      connection.close()
    },
  }
}

/** Submitting as the store does it, over a connection that a caller brings. */
function openSubmittingOn(connection: Connection, types: Types) {
  const history = openHistory(connection)
  const batches = openBatches(connection, types, history, (job, atMs) => submitting.submit(job, atMs))
  const submitting: ReturnType<typeof openSubmitting> = openSubmitting(connection, types, history, batches)
  return submitting
}
