import { RedressError } from '../../core/errors.ts'
import type * as api from '../contract/store.ts'
import { openBatches } from '../scripts/batches.ts'
import * as journal from '../scripts/history.ts'
import { freeLiveKey } from '../scripts/jobs/intervening.ts'
import { openSubmitSpecial } from '../scripts/jobs/merging.ts'
import { reports } from '../scripts/jobs/reports.ts'
import { fillLimitKeys, openTypes } from '../scripts/jobs/types.ts'
import { forgetTtl, withTtlBegun } from '../scripts/jobs/waiting.ts'
import { letterMarks } from '../scripts/letters/dead-letters.ts'
import { openBacklog } from '../scripts/limits/backlog.ts'
import { openGates } from '../scripts/limits/gates.ts'
import { retryMeters } from '../scripts/limits/meters.ts'
import { openSubjects } from '../scripts/subjects.ts'
import type { ScriptContext } from '../scripts/tx/context.ts'
import { answer, atOnce, finish } from '../scripts/tx/script.ts'
import { openConnection } from './connection/connection.ts'
import { isBusy, storeError } from './connection/errors.ts'
import { GroupCommit } from './connection/group-commit.ts'
import { openLongReads } from './connection/long-reads.ts'
import { Slices } from './connection/slices.ts'
import { openTx, type SqliteTx } from './connection/tx.ts'
import { type History, historyAtOnce, removeHistory, typesAtOnce } from './jobs/at-once.ts'
import { openClaiming } from './jobs/claiming.ts'
import { openClosing } from './jobs/closing.ts'
import { openSubmitIn } from './jobs/submit-in.ts'
import { openBacklogCount, openSubmitting, SAVEPOINT } from './jobs/submitting.ts'

export interface SqliteOptions {
  /** A file, which is created if it does not exist, or ':memory:'. */
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
  const tx = openTx(connection, {
    nowMs,
    wakeWorkers: () => {
      hasNewWork = true
    },
  })
  const knownTypes = openTypes()
  const types = typesAtOnce(knownTypes, tx)
  const history: History = historyAtOnce(tx)
  // A submission may settle a batch, and a batch that settles may submit a job: on the same connection, perhaps a caller's.
  const submit: ScriptContext['submit'] = (on, jobs, atMs) =>
    answer(() => jobs.map((job) => submitOn(on as SqliteTx)(job, atMs)))
  const batchScripts = openBatches({ types: knownTypes, submit })
  const submitSpecial = openSubmitSpecial(batchScripts)
  const submitOn = perTx((on) => openSubmitting(on, types, batchScripts, submitSpecial))
  const batches = atOnce(tx, batchScripts)
  const counts = openBacklogCount()
  const backlog = openBacklog(knownTypes, counts.count)
  const gates = openGates()
  const retries = atOnce(tx, retryMeters)
  const closing = openClosing(
    connection,
    history,
    batches,
    retries,
    atOnce(tx, { ...letterMarks, freeLiveKey }),
    atOnce(tx, reports),
  )
  const claiming = openClaiming(tx, types, gates, retries)

  const seeWorker = connection.prepare('UPDATE workers SET seen_at = ?2, stopped_at = NULL WHERE key = ?1')

  const listeners = new Set<() => void>()
  const commitListeners = new Set<() => void>()
  let hasNewWork = false
  let isStopped = false
  const afterCommit = (): void => {
    for (const listener of commitListeners) listener()
    if (!hasNewWork) return
    hasNewWork = false
    wake()
  }
  const commits = new GroupCommit(connection.database, busyMsMax, afterCommit, () => {
    knownTypes.forget()
    counts.forget()
  })
  const wake = (): void => {
    for (const listener of listeners) listener()
  }

  const offers = new Set<() => api.OfferedClaim | null>()
  const offered = (): api.OfferedClaim | null => {
    for (const offer of offers) {
      const claim = offer()
      if (claim !== null) return claim
    }
    return null
  }
  /** Inside the transaction of a submission, which must not fail with the claim: the worker then claims by itself. */
  const claimInPassing = ({ worker, lanes, max }: api.OfferedClaim): api.Claimed | null => {
    finish(SAVEPOINT.begin(tx))
    try {
      return claiming.claim(worker, lanes, max, nowMs())
    } catch {
      finish(SAVEPOINT.undo(tx))
      return null
    } finally {
      finish(SAVEPOINT.end(tx))
    }
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

  const readInSteps = openLongReads(path, connection, read)

  const withinBacklog: ScriptContext['withinBacklog'] = function* (on, jobs, run) {
    const submitted = yield* backlog.within(on, jobs, run, SAVEPOINT)
    if (submitted instanceof RedressError) counts.forget()
    return submitted
  }
  const script: ScriptContext = {
    dialect: tx.dialect,
    types: knownTypes,
    history: journal.history,
    submit,
    withinBacklog,
    write: (doing, run) => commits.write(doing, () => finish(run(tx, nowMs(), null))),
    read: (doing, run, how) =>
      how?.isLong === true
        ? readInSteps(doing, (on) => run(on === connection ? tx : openTx(on, { nowMs })))
        : read(doing, () => finish(run(tx))),
  }

  const submitIn = openSubmitIn({
    path,
    typesOf(jobs) {
      types.keepUp()
      return jobs.map(({ type }) => types.needed(type))
    },
    submitterOn(connection) {
      const on = openTx(connection, { nowMs })
      const { refusal } = atOnce(on, openBacklog(knownTypes))
      return (jobs) => {
        const submitted = finish(submit(on, jobs, nowMs()))
        const refused = refusal(jobs, submitted)
        if (refused !== null) throw refused
        return submitted
      }
    },
  })

  const close = (worker: api.WorkerKey, closes: readonly api.Close[]): api.CloseAnswer[] => {
    const atMs = nowMs()
    return closes.map((one) => {
      if (one.change.to === 'queued' || gates.hasLimited) hasNewWork = true
      return closing.close(one, worker, atMs)
    })
  }

  return {
    ...openSubjects(script, {
      batches: batchScripts,
      pruning: { removeHistory },
      onCommit(listener) {
        commitListeners.add(listener)
        return () => commitListeners.delete(listener)
      },
    }),

    async register({ types: declared }) {
      await commits.write('declaring job types', () => {
        types.register(declared, nowMs())
      })
      await read('reading job types', types.refresh)
      await fillLimitKeys(script)
    },

    async enforceSingletons({ type }) {
      const mark = await commits.write('declaring a singleton', () => finish(knownTypes.markSingletons(tx, type)))
      if (mark === 'changed') await fillLimitKeys(script)
      return mark !== 'unknown'
    },

    async submit({ jobs }) {
      const offer = offered()
      let claimed: api.Claimed | null = null
      const writing = commits.write('submitting', () => {
        hasNewWork = true
        const submitted = finish(withinBacklog(tx, jobs, () => submit(tx, jobs, nowMs())))
        claimed = offer === null ? null : claimInPassing(offer)
        return submitted
      })
      const submitted = await writing
        .catch((error: unknown) => {
          claimed = null
          throw error
        })
        .finally(() => offer?.taken(claimed))
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
      return commits.write('claiming', () => claiming.claim(worker, lanes, max, nowMs()))
    },

    start: ({ worker, attempts }) =>
      commits.write('marking attempts as started', () => {
        const atMs = nowMs()
        const lost = attempts.filter((one) => closing.start(one, worker, atMs) === 'lost').map((one) => one.key)
        const begun = withTtlBegun(attempts, lost)
        if (begun.length > 0) finish(forgetTtl(tx, begun))
        return { lost }
      }),

    renew: ({ worker, leases }) =>
      commits.write('renewing leases', () => {
        const atMs = nowMs()
        seeWorker.run(worker, atMs)
        const lost = leases.filter((one) => closing.renew(one, worker, atMs) === 'lost').map((one) => one.key)
        return { nowMs: atMs, lost }
      }),

    report: ({ worker, reports: given }) =>
      commits.write('keeping reports of handlers', () => ({ lost: closing.report(given, worker, nowMs()) })),

    close: ({ worker, closes }) => commits.write('closing attempts', () => close(worker, closes)),
    closeNow: ({ worker, closes }) => commits.writeNow(() => close(worker, closes)),

    reclaim: ({ reclaims }) =>
      commits.write('reclaiming', () => {
        const atMs = nowMs()
        hasNewWork = true
        return reclaims.map((one) => closing.reclaim(one, atMs))
      }),

    submitIn({ executor, jobs }) {
      if (isStopped) throw new RedressError('STORE_STOPPED', 'The store was stopped before submitting.')
      const submitted = submitIn(executor, jobs)
      // Most transactions end in the turn that began them, so the workers wake just after the commit.
      setImmediate(wake)
      return submitted
    },
    wake,

    nowMs: async () => nowMs(),
    onWake(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    onSubmit(offer) {
      offers.add(offer)
      return () => offers.delete(offer)
    },
    async stop() {
      if (isStopped) return
      isStopped = true
      await commits.stop()
      connection.close()
    },
  }
}

/** Makes one value per connection. */
function perTx<T>(make: (tx: SqliteTx) => T): (tx: SqliteTx) => T {
  const known = new WeakMap<SqliteTx, T>()
  return (tx) => {
    const made = known.get(tx) ?? make(tx)
    known.set(tx, made)
    return made
  }
}
