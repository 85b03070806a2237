import { randomInt } from 'node:crypto'
import { RedressError } from '../../core/errors.ts'
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
import type { Pool, Tx } from './client.ts'
import { openClosing } from './closing.ts'
import type { PgContext } from './context.ts'
import { openDeadLetters, openLetters } from './dead-letters.ts'
import { openDepths } from './depths.ts'
import { isNothingDone } from './errors.ts'
import { openExpiring } from './expiring.ts'
import { openFailureGroups } from './failure-groups.ts'
import { openFeed } from './feed.ts'
import { openGates } from './gates.ts'
import { openHistory } from './history.ts'
import { openIntervening } from './intervening.ts'
import { openLetterMarks } from './letter-marks.ts'
import { fillLimitKeys } from './limit-keys.ts'
import { openLimits } from './limits.ts'
import { openWakes } from './listen.ts'
import { inPassing, type Transaction, waitForStandby } from './locks.ts'
import { openMeters } from './meters.ts'
import { migrate } from './migrate.ts'
import { openNotices } from './notices.ts'
import { checkServer, openingError } from './opening.ts'
import { openPruning } from './pruning.ts'
import { openQueues } from './queues.ts'
import { openReading } from './reading.ts'
import { openReplays } from './replays.ts'
import { openRetryMeters } from './retry-meters.ts'
import { openSchedules } from './schedules.ts'
import { openPrimaryPool } from './side-rows.ts'
import { openStalled } from './stalled.ts'
import { openSubmissions } from './submissions.ts'
import { openSubmitIn } from './submit-in.ts'
import { openSubmitting } from './submitting.ts'
import { PATIENCE_MS, trying } from './trying.ts'
import { openTypes } from './types.ts'
import { openWorkers } from './workers.ts'

export interface PostgresOptions {
  url: string
  schema?: string
  connectionsMax?: number
  /** For tests: stands in for the database's clock. */
  nowMs?: () => number
  /** For tests: how long a call goes on by itself while the server is away. */
  patienceMs?: number
}

/** By so much the clocks of two servers may differ, of which the second took over from the first. */
const CLOCKS_APART_MS = 5_000
/** A type that becomes limited is declared while no transaction writes jobs: how often that is tried, and how far apart. */
const DECLARING_TRIES_MAX = 15
const DECLARING_PAUSE_MS = [100, 300] as const

/** What every part works with; `openPostgres` puts the parts together. */
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
  const clock = async (on: Pool | Tx): Promise<number> => {
    if (nowMs !== undefined) return nowMs()
    const [row] = await on<{ now: number }[]>`SELECT redress_now() AS now`
    return (row as { now: number }).now
  }
  const hinted = new WeakSet<object>()
  const wakes = openWakes({ sql, client: { url, schema, connectionsMax: 1, hosts } })
  hosts.watch()

  return {
    sql,
    types: openTypes(sql),
    history: openHistory(clock),
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
          hasNewWork = hinted.has(tx)
          isCommitting = true
          return result
        }, limits)
      const answer = await trying(
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
      const answer = await trying(
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

    givenNowMs: () => nowMs?.() ?? null,

    read: (doing, run, how) =>
      trying(
        doing,
        () => {
          refuseStopped(doing)
          return acknowledged(() => run(sql, () => clock(sql)))
        },
        () => true,
        { patienceMs, ...how },
      ),

    hintWork: (tx) => void hinted.add(tx),

    async stop() {
      isStopped = true
      leave()
      await wakes.stop()
      await sql.end({ timeout: 5 })
    },
  }
}

/** The store for many machines: one schema of a PostgreSQL database, any number of processes. */
export async function openPostgres(options: PostgresOptions): Promise<api.Store> {
  const { schema = 'redress' } = options
  const context = await openContext(options)
  const { types, read, write, wakes } = context

  // A job enters a batch, and a batch that settles may submit one.
  const batches = openBatches(context, (tx, jobs, atMs) => submitting.submitMany(tx, jobs, atMs))
  const submitting = openSubmitting(context, batches)
  const backlog = openBacklog(context)
  const submissions = openSubmissions(context, submitting, backlog)
  const submitIn = openSubmitIn(context, { schema, submitting, backlog })
  const meters = openMeters()
  const retries = openRetryMeters(meters)
  const breakerRows = openBreakerRows(context)
  const gates = openGates([openLimits(meters), openBreakerGate(breakerRows, context)])
  const claiming = openClaiming(context, gates, retries)
  const closing = openClosing(context, batches, retries, () => gates.hasLimited)
  const { intervene } = openIntervening(context, closing, batches, openLetterMarks())
  const { start, renew, close, reclaim } = closing
  const failureGroups = openFailureGroups(context)
  const letters = openLetters(context, submitting.submitMany)

  return {
    ...openBatchStore(context, batches, openBatchReading(context), backlog),
    ...openWorkers(context),
    ...openBreakers(context, breakerRows),
    ...openSchedules(context, submitting.submit),
    ...openNotices(context, submitting.submitMany),
    ...openFeed(context),
    ...openQueues(context, meters),
    ...openDepths(context),
    ...openReading(context),
    ...openAccounts(context),
    ...openActivity(context),
    ...openAudit(context),
    ...failureGroups.store,
    ...openPruning(context, failureGroups, meters),
    ...openDeadLetters(context, letters),
    ...openReplays(context, letters),
    claim: claiming.claim,
    ...openStalled(context),
    ...{ start, renew, close, reclaim, intervene },
    ...openExpiring(context, closing),

    async register({ types: declared }) {
      const declare = async (tx: Tx, nowMs: number, isAlone: boolean): Promise<void> => {
        await types.register(tx, declared, nowMs, isAlone)
        for (const { policy } of declared) {
          if (policy.breaker !== null) await breakerRows.declare(tx, policy.breaker, nowMs)
        }
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
      await read('reading job types', () => types.refresh())
      await fillLimitKeys(context)
    },
    types: () => read('reading job types', async () => types.refresh().then(types.all)),

    submit: ({ jobs }) => submissions.submit(jobs),
    submitIn: ({ executor, jobs }) => submitIn(executor, jobs),
    hint: wakes.hint,

    nowMs: () => read('reading the time', (_, nowMs) => nowMs()),
    onWork: wakes.onWork,
    async stop() {
      await Promise.all([submissions.drain(), closing.drain()])
      await context.stop()
    },
  }
}
