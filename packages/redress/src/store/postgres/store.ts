import { randomInt } from 'node:crypto'
import { RedressError } from '../../core/errors.ts'
import type * as api from '../contract/store.ts'
import { openBatches } from '../scripts/batches.ts'
import { history } from '../scripts/history.ts'
import { reports } from '../scripts/jobs/reports.ts'
import { fillLimitKeys } from '../scripts/jobs/types.ts'
import { openBacklog } from '../scripts/limits/backlog.ts'
import { openGates } from '../scripts/limits/gates.ts'
import { retryMeters } from '../scripts/limits/meters.ts'
import { openSubjects } from '../scripts/subjects.ts'
import type { ScriptContext, Tx as ScriptTx } from '../scripts/tx/context.ts'
import { answer, awaited, awaiting, type Script } from '../scripts/tx/script.ts'
import type { Sql, Tx } from './connection/client.ts'
import { awaitedTypes, openTypes, type PgContext } from './connection/context.ts'
import { isDedupeKeyTaken, isNothingDone, isUnknown } from './connection/errors.ts'
import { openWakes } from './connection/listen.ts'
import { inPassing, type Transaction, waitForStandby } from './connection/locks.ts'
import { checkServer, openingError } from './connection/opening.ts'
import { PATIENCE_MS, retrying } from './connection/retrying.ts'
import { openPrimaryPool } from './connection/side-rows.ts'
import { openTxOf, type PgTx } from './connection/tx.ts'
import { openClaiming } from './jobs/claiming.ts'
import { openClosing } from './jobs/closing.ts'
import { openSubmissions, type SubmitWithin } from './jobs/submissions.ts'
import { openSubmitIn } from './jobs/submit-in.ts'
import { openSubmitting } from './jobs/submitting.ts'
import { migrate } from './schema/migrate.ts'
import { openPartitions, removeHistory } from './schema/partitions.ts'

export interface PostgresOptions {
  url: string
  schema?: string
  connectionsMax?: number
  /** For tests: stands in for the database's clock. */
  nowMs?: () => number
  /** For tests: how long a call is retried while the server is away. */
  patienceMs?: number
}

/** The clocks of an old and a new primary may differ by this much. */
const CLOCKS_APART_MS = 5_000
/** A type that becomes limited is declared while no transaction writes jobs: how often that is tried, and how far apart. */
const DECLARING_TRIES_MAX = 15
const DECLARING_PAUSE_MS = [100, 300] as const

/** The connection that every part of the store works with. */
export async function openContext(options: PostgresOptions): Promise<PgContext & { stop(): Promise<void> }> {
  const { url, schema = 'redress', connectionsMax = 8, nowMs, patienceMs = PATIENCE_MS } = options
  const { sql, hosts, acknowledged, leave } = openPrimaryPool({ url, schema, connectionsMax })
  try {
    await checkServer(sql)
    await migrate(sql, schema)
  } catch (error) {
    leave()
    await sql.end({ timeout: 1 })
    throw openingError(error, url)
  }
  let isStopped = false
  const refuseStopped = (doing: string): void => {
    if (isStopped) throw new RedressError('STORE_STOPPED', `The store was stopped before ${doing}.`)
  }
  const clock = async (on: Sql): Promise<number> => {
    if (nowMs !== undefined) return nowMs()
    const [row] = await on<{ now: number }[]>`SELECT redress_now() AS now`
    return (row as { now: number }).now
  }
  const waking = new WeakSet<object>()
  const wakeWorkers = (on: object): void => void waking.add(on)
  const givenNowMs = () => nowMs?.() ?? null
  const txOf = openTxOf({ now: clock, givenNowMs, wakeWorkers })
  const knownTypes = openTypes()
  const types = awaitedTypes(knownTypes, txOf, sql)
  const wakes = openWakes({ sql, client: { url, schema, connectionsMax: 1, hosts } })
  hosts.watch()

  const context: PgContext & { stop(): Promise<void> } = {
    sql,
    txOf,
    types,
    history: awaited(history, txOf),
    scripts: {
      dialect: txOf(sql).dialect,
      types: knownTypes,
      history,
      write: (doing, script, { alone, mayGoMissing = false, ...how } = {}) =>
        context
          .write(doing, (tx, nowMs, sinceMs) => awaiting(script(txOf(tx), nowMs, sinceMs)), alone, how)
          .catch((error: unknown) => (mayGoMissing && isUnknown(error) ? (undefined as never) : Promise.reject(error))),
      read: (doing, script, how) => context.read(doing, (on) => awaiting(script(txOf(on))), how),
    },
    wakes,
    now: clock,

    async write(doing, run, alone, how) {
      let isCommitting = false
      let hasNewWork = false
      const limits = how?.deadlineMs === undefined ? {} : { wholeMs: how.deadlineMs }
      const transaction = (unknownSinceMonoMs: number | null) =>
        sql.transaction(async (tx) => {
          if (alone !== undefined) await tx`SELECT pg_advisory_xact_lock(hashtext(${`${schema} ${alone}`}))`
          if (unknownSinceMonoMs !== null) await waitForStandby(tx)
          const nowMs = await clock(tx)
          const agoMs = unknownSinceMonoMs === null ? null : performance.now() - unknownSinceMonoMs
          const result = await run(tx, nowMs, agoMs === null ? null : nowMs - agoMs - CLOCKS_APART_MS)
          hasNewWork = waking.has(tx)
          isCommitting = true
          return result
        }, limits)
      const answer = await retrying(
        doing,
        ({ unknownSinceMonoMs }) => {
          refuseStopped(doing)
          isCommitting = false
          return acknowledged(() => transaction(unknownSinceMonoMs))
        },
        () => !isCommitting,
        { patienceMs, ...how },
      )
      wakes.committed(hasNewWork)
      return answer as never
    },

    async once(doing, run, hasNewWork = false, how) {
      const answer = await retrying(
        doing,
        () => {
          refuseStopped(doing)
          return acknowledged(() => run(sql))
        },
        isNothingDone,
        { patienceMs, ...how },
      )
      if (hasNewWork !== null) wakes.committed(hasNewWork)
      return answer
    },

    givenNowMs,

    read: (doing, run, how) =>
      retrying(
        doing,
        () => {
          refuseStopped(doing)
          return acknowledged(() => run(sql, () => clock(sql)))
        },
        () => true,
        { patienceMs, ...how },
      ),

    wakeWorkers,

    async stop() {
      isStopped = true
      leave()
      await wakes.stop()
      await sql.end({ timeout: 5 })
    },
  }
  return context
}

const onOf = (tx: ScriptTx): Sql => (tx as PgTx).on

/** The store for many machines: one schema of a PostgreSQL database, any number of processes. */
export async function openPostgres(options: PostgresOptions): Promise<api.Store> {
  const { schema = 'redress' } = options
  const context = await openContext(options)
  const { types, read, write, wakes } = context

  // A submission may settle a batch, and a batch that settles may submit a job.
  const submit: ScriptContext['submit'] = (tx, jobs, nowMs) =>
    answer(() => submitting.submitMany(onOf(tx) as Tx, jobs, nowMs))
  const batchScripts = openBatches({ types: context.scripts.types, submit })
  const batches = awaited(batchScripts, context.txOf)
  const submitting = openSubmitting(context, batchScripts)
  const backlog = openBacklog(context.scripts.types)
  const submitWithin: SubmitWithin = (tx, jobs, nowMs) => {
    const on = context.txOf(tx)
    return awaiting(backlog.within(on, jobs, () => submit(on, jobs, nowMs), null)) as Promise<api.Submitted[]>
  }
  const submissions = openSubmissions(context, submitting, submitWithin)
  const submitIn = openSubmitIn(context, schema, submitWithin)
  const script: ScriptContext = {
    ...context.scripts,
    submit,
    withinBacklog: (tx, jobs, run) => backlog.within(tx, jobs, run, null),
  }
  const retries = awaited(retryMeters, context.txOf)
  const gates = openGates()
  const claiming = openClaiming(context, gates, retries)
  const closing = openClosing(context, batches, retries, awaited(reports, context.txOf), () => gates.hasLimited)
  const { start, renew, report, close, reclaim } = closing
  const partitions = openPartitions(context)

  /** Changes of job types run one after the other. */
  const declaring = async <T>(
    change: (on: ScriptTx, lock: () => Script<void>, nowMs: number) => Script<T>,
  ): Promise<T> => {
    let answer: T
    const declare = async (tx: Tx, nowMs: number, isAlone: boolean): Promise<void> => {
      const on = context.txOf(tx)
      // A claim in flight would lease jobs without a key, and a submission would add some. The lock waits until they
      // end, and later ones see the new policy.
      const lock = function* (): Script<void> {
        if (isAlone) yield* on.run`LOCK TABLE job_types, jobs IN SHARE MODE`
      }
      answer = await awaiting(change(on, lock, nowMs))
    }
    const transaction: Transaction = (run) => write('declaring job types', run, 'types', { mayRepeat: true })
    for (let tries = 1; !(await inPassing(transaction, (tx, nowMs) => declare(tx, nowMs, true))); tries++) {
      if (tries >= DECLARING_TRIES_MAX) {
        // A transaction stays open. Jobs that it adds without a key get one when they are claimed.
        await transaction((tx, nowMs) => declare(tx, nowMs, false))
        break
      }
      await new Promise((resolve) => setTimeout(resolve, randomInt(...DECLARING_PAUSE_MS)))
    }
    // biome-ignore lint/style/noNonNullAssertion: one of the transactions has set it
    return answer!
  }

  return {
    ...openSubjects(script, {
      batches: batchScripts,
      pruning: {
        removeHistory: (tx, jobs) => answer(() => removeHistory(onOf(tx) as Tx, jobs)),
        begin: partitions.keep,
        end: partitions.retire,
      },
      onCommit: wakes.onCommit,
      isDedupeKeyTaken,
    }),
    claim: claiming.claim,
    ...{ start, renew, report, close, reclaim },

    async register({ types: declared }) {
      await declaring((on, lock, nowMs) => script.types.register(on, declared, nowMs, lock))
      await read('reading job types', () => types.refresh())
      await fillLimitKeys(script)
    },

    async enforceSingletons({ type }) {
      const mark = await declaring((on, lock) => script.types.markSingletons(on, type, lock))
      if (mark === 'changed') await fillLimitKeys(script)
      return mark !== 'unknown'
    },

    submit: ({ jobs }) => submissions.submit(jobs),
    submitIn: ({ executor, jobs }) => submitIn(executor, jobs),
    wake: wakes.wakeAll,

    nowMs: () => read('reading the time', (_, nowMs) => nowMs()),
    onWake: wakes.onWake,
    async stop() {
      await Promise.all([submissions.drain(), closing.drain()])
      await context.stop()
    },
  }
}
