import { type Change, cancelOnRequeue, isStillReclaimable } from '../../../core/job/change.ts'
import type { EventData } from '../../../core/job/events.ts'
import type { NewNotice } from '../../../core/notice/notice.ts'
import type { Report } from '../../contract/reports.ts'
import type {
  BatchKey,
  Close,
  CloseAnswer,
  Held,
  JobKey,
  Reclaim,
  Renewal,
  Renewed,
  Started,
  WorkerKey,
} from '../../contract/store.ts'
import { forgetTtl, withTtlBegun } from '../../scripts/jobs/waiting.ts'
import { awaiting } from '../../scripts/tx/script.ts'
import type { Sql, Tx } from '../connection/client.ts'
import type { Batches, PgContext, Reports, RetryMeters } from '../connection/context.ts'
import { isUnknown } from '../connection/errors.ts'
import { GroupCommit } from '../connection/group-commit.ts'
import { waitForStandby } from '../connection/locks.ts'
import { openOrderedSends } from '../connection/ordered-sends.ts'
import { numbers } from '../connection/values.ts'
import { openClosesInDoubt } from './closes-in-doubt.ts'
import { type AttemptEnd, closeAll, completeAll } from './closing-rows.ts'
import { held } from './fence.ts'

interface HeldRow {
  key: JobKey
  worker: WorkerKey
  cancel_requested_at: number | null
  orphaned_at: number | null
  lease_until: number
  started_at: number | null
  batch: BatchKey | null
}

/** One worker's call. */
interface CloseCall {
  worker: WorkerKey
  closes: readonly Close[]
}

/** An attempt that ends, with its batch and its notices. */
interface Ending extends AttemptEnd {
  /** The batch of the lease. */
  batch: BatchKey | null
  report?: Close['report']
  notices?: readonly NewNotice[]
}

/** What closes mean for batches and notices. It is written once, after the last job. */
interface Effects {
  moves: Map<string, { batch: BatchKey; to: Change['to']; isPermanent: boolean; times: number }>
  notices: { notices: readonly NewNotice[]; batch: BatchKey | null }[]
}

type Requeue = Extract<Change, { to: 'queued' }>

/** The most closes that share a transaction. More gain nothing and make other transactions wait. */
const CLOSES_PER_FLUSH = 2_000

/** The bounds of the timeout of a renewal. */
const RENEWAL_MS_MIN = 1_000
const RENEWAL_MS_MAX = 10_000

/** A worker retries by itself, and meanwhile stops handlers whose leases expire. */
const AT_ONCE = { isImpatient: true } as const

/** The writes that end or extend an attempt. Each begins at the fence. */
export function openClosing(
  context: PgContext,
  batches: Batches,
  retries: RetryMeters,
  reported: Reports,
  /** Whether any type is limited: then the end of a job may let another one begin. */
  hasLimited: () => boolean = () => false,
) {
  const { history, txOf, write, once, givenNowMs, wakeWorkers } = context
  const doubts = openClosesInDoubt()
  const sends = openOrderedSends()

  /** A late write changes nothing and leaves an event as evidence. */
  const refuse = async (
    tx: Tx,
    lost: readonly (Held & { worker: WorkerKey })[],
    kind: NonNullable<EventData['write']>,
    nowMs: number,
  ): Promise<void> => {
    if (lost.length === 0) return
    await tx`
      INSERT INTO events (job, at, kind, attempt, worker, data)
      SELECT given.key, ${nowMs}::bigint, 'lost', given.attempt, given.worker,
        json_build_object('write', ${kind}::text, 'status', jobs.status, 'currentAttempt', jobs.attempt)::text
      FROM unnest(${numbers(lost.map(({ key }) => key))}::bigint[], ${numbers(lost.map(({ attempt }) => attempt))}::bigint[],
        ${numbers(lost.map(({ worker }) => worker))}::bigint[]) AS given (key, attempt, worker)
      JOIN jobs ON jobs.key = given.key`
  }

  /** If a close of this worker is in doubt, the attempt may have ended by it and does not count as lost. */
  const notInDoubt = (missed: readonly Held[], worker: WorkerKey): (Held & { worker: WorkerKey })[] =>
    missed.map(({ key, attempt }) => ({ key, attempt, worker })).filter((one) => !doubts.has(one))

  /** Reads and locks the attempts that are still open. */
  const lockHeld = async (tx: Tx, attempts: readonly Held[]): Promise<Map<JobKey, HeldRow>> => {
    if (attempts.length === 0) return new Map()
    // By ascending keys, like every transaction that locks several. ORDER BY would read the whole table in key order.
    const sorted = attempts.toSorted((a, b) => a.key - b.key)
    const rows = await tx<HeldRow[]>`
      SELECT jobs.key, worker, cancel_requested_at, orphaned_at, lease_until, started_at,
        (SELECT batch FROM job_specs WHERE job_specs.key = jobs.key AND left_batch IS NULL) AS batch
      FROM unnest(${numbers(sorted.map(({ key }) => key))}::bigint[],
        ${numbers(sorted.map(({ attempt }) => attempt))}::bigint[]) AS given (key, attempt)
      CROSS JOIN LATERAL (SELECT * FROM jobs WHERE ${held(tx)} FOR UPDATE) AS jobs`
    return new Map(rows.map((row) => [row.key, row]))
  }

  /**
   * Retries over the budget of their type wait longer. Only attempts that are still open and will be requeued pay, so their
   * rows are locked first.
   */
  const price = async (tx: Tx, endings: readonly Ending[], nowMs: number): Promise<readonly Ending[]> => {
    const budgeted = endings.filter(({ change }) => change.to === 'queued' && change.budget !== undefined)
    if (budgeted.length === 0) return endings
    const rows = await lockHeld(tx, budgeted)
    const paying = budgeted.filter(({ key, change }) => {
      const row = rows.get(key)
      return row !== undefined && cancelOnRequeue(change, row.cancel_requested_at !== null).change === change
    })
    const asked = paying.map(({ change }) => change as Requeue)
    const priced = await retries.price(tx, asked, nowMs)
    await retries.pay(tx, priced)
    const changeOf = new Map(paying.map((ending, i) => [ending, priced.changes[i] as Requeue]))
    return endings.map((ending) => ({ ...ending, change: changeOf.get(ending) ?? ending.change }))
  }

  /** Ends attempts of different jobs. Returns the keys of those that were still open. */
  const endAll = async (
    tx: Tx,
    given: readonly Ending[],
    effects: Effects,
    nowMs: number,
  ): Promise<ReadonlySet<JobKey>> => {
    const endings = (await price(tx, given, nowMs)).toSorted((a, b) => a.key - b.key)
    const closed = new Set<JobKey>()
    const closeSome = async (some: readonly Ending[], areRead: boolean): Promise<void> => {
      const batchOf = await closeAll(tx, some, nowMs, areRead)
      for (const ending of some) {
        const batch = batchOf.get(ending.key)
        if (batch === undefined) continue
        closed.add(ending.key)
        note(effects, ending, ending.change.to === 'complete' ? ending.batch : batch)
      }
    }
    await closeSome(endings, false)
    if (closed.size === endings.length) return closed
    // The others have lost their lease, or an operator asked to cancel them.
    const missed = endings.filter(({ key }) => !closed.has(key))
    const rows = await lockHeld(tx, missed)
    const decided = missed.flatMap((ending): Ending[] => {
      const row = rows.get(ending.key)
      return row === undefined
        ? []
        : [{ ...ending, ...cancelOnRequeue(ending.change, row.cancel_requested_at !== null) }]
    })
    if (decided.length > 0) await closeSome(decided, true)
    return closed
  }

  const applyEffects = async (tx: Tx, { moves, notices }: Effects, nowMs: number): Promise<void> => {
    // By ascending keys, like every transaction that locks several.
    for (const { batch, to, isPermanent, times } of [...moves.values()].toSorted((a, b) => a.batch - b.batch)) {
      await batches.moved(tx, batch, 'processing', to, isPermanent, nowMs, times)
    }
    await history.notifyAll(tx, notices, nowMs)
  }

  const closeTogether = async (tx: Tx, endings: readonly Ending[], nowMs: number): Promise<CloseAnswer[]> => {
    const effects: Effects = { moves: new Map(), notices: [] }
    const answers = new Map<Ending, CloseAnswer>()
    for (const round of roundsOf(endings)) {
      // Before the attempts end. The close of one that is lost is refused below, and its report with it.
      const reports = round.flatMap(({ key, attempt, report }) =>
        report === undefined ? [] : [{ key, attempt, ...report }],
      )
      if (reports.length > 0) await reported.add(tx, reports, nowMs)
      const closed = await endAll(tx, round, effects, nowMs)
      for (const ending of round) answers.set(ending, closed.has(ending.key) ? 'closed' : 'lost')
      await refuse(
        tx,
        round.filter(({ key }) => !closed.has(key)),
        'close',
        nowMs,
      )
    }
    await applyEffects(tx, effects, nowMs)
    return endings.map((ending) => answers.get(ending) as CloseAnswer)
  }

  const closeInDoubt = async (tx: Tx, endings: readonly Ending[], nowMs: number): Promise<CloseAnswer[]> => {
    const inDoubt = endings.filter(doubts.has)
    if (inDoubt.length === 0) return closeTogether(tx, endings, nowMs)
    await waitForStandby(tx)
    const recorded = await doubts.recorded(tx, inDoubt)
    const known = new Set(inDoubt.filter(({ key }) => recorded.has(key)))
    const rest = endings.filter((ending) => !known.has(ending))
    const answers = await closeTogether(tx, rest, nowMs)
    const answerOf = new Map(rest.map((ending, i) => [ending, answers[i] as CloseAnswer]))
    return endings.map((ending) => answerOf.get(ending) ?? 'closed')
  }

  const closeInTransaction = (endings: readonly Ending[]): Promise<CloseAnswer[]> => {
    const close = (tx: Tx, nowMs: number): Promise<CloseAnswer[]> => {
      if (mayLetBegin(endings)) wakeWorkers(tx)
      return closeInDoubt(tx, endings, nowMs)
    }
    return write('closing attempts', close, undefined, AT_ONCE)
  }

  const mayLetBegin = (endings: readonly Ending[]): boolean =>
    hasLimited() || endings.some(({ change }) => change.to === 'queued')

  /** Closes in one statement that is its own transaction: nearly all closes take this path. Returns the closed keys. */
  const closeAtOnce = async (
    endings: readonly Ending[],
    run: (...args: Parameters<typeof completeAll>) => Promise<{ keys(): Iterable<JobKey> }>,
  ): Promise<ReadonlySet<JobKey>> => {
    if (endings.length === 0) return new Set()
    const sorted = endings.toSorted((a, b) => a.key - b.key)
    const close = (sql: Sql) => run(sql, sorted, givenNowMs())
    return new Set((await once('closing attempts', close, mayLetBegin(endings), AT_ONCE)).keys())
  }

  /** Whether its end changes only its own rows and needs no read first. */
  const isPlain = (ending: Ending): boolean => {
    const { change, batch, notices, report } = ending
    if (report !== undefined) return false
    const isBudgeted = change.to === 'queued' && change.budget !== undefined
    return batch === null && !isBudgeted && (notices === undefined || change.to === 'complete') && !doubts.has(ending)
  }

  const closeEndings = async (endings: readonly Ending[]): Promise<CloseAnswer[]> => {
    const isOneEach = new Set(endings.map(({ key }) => key)).size === endings.length
    const plain = isOneEach ? endings.filter(isPlain) : []
    if (plain.length === 0) return closeInTransaction(endings)
    // The statements close different jobs, so neither waits for the other.
    const parts = await Promise.allSettled([
      closeAtOnce(
        plain.filter(({ change }) => change.to === 'complete'),
        completeAll,
      ),
      closeAtOnce(
        plain.filter(({ change }) => change.to !== 'complete'),
        closeAll,
      ),
    ])
    const closed = new Set(parts.flatMap((part) => (part.status === 'fulfilled' ? [...part.value] : [])))
    if (closed.size === endings.length) return endings.map(() => 'closed')
    // If the rest fails, the worker sends all of them again, and those that are closed must not be refused.
    doubts.add(endings.filter(({ key }) => closed.has(key)))
    const refusals = parts.flatMap((part) => (part.status === 'rejected' ? [part.reason] : []))
    // If one outcome is unknown, the whole call is: an unknown outcome hides a refusal, never the other way round.
    if (refusals.length > 0) throw refusals.find(isUnknown) ?? refusals[0]
    // Those with a batch, notices or a budget, those that came too late, and those with a request to cancel.
    const rest = endings.filter(({ key }) => !closed.has(key))
    const answers = await closeInTransaction(rest)
    const answerOf = new Map(rest.map(({ key }, i) => [key, answers[i] as CloseAnswer]))
    return endings.map(({ key }) => answerOf.get(key) ?? 'closed')
  }

  const closeCalls = async (calls: readonly CloseCall[]): Promise<CloseAnswer[][]> => {
    const endings = calls.flatMap(({ worker, closes }) => closes.map((close) => endingOf(close, worker)))
    await sends.settled(endings)
    const answers = await closeEndings(endings).catch((error: unknown) => {
      if (isUnknown(error)) doubts.add(endings)
      throw error
    })
    doubts.remove(endings)
    let begin = 0
    return calls.map(({ closes }) => {
      begin += closes.length
      return answers.slice(begin - closes.length, begin)
    })
  }

  const group = new GroupCommit(closeCalls, { sizeOf: ({ closes }) => closes.length, sizeMax: CLOSES_PER_FLUSH })

  /** Marks jobs as orphans. */
  const markOrphans = async (tx: Tx, orphans: readonly Reclaim[], nowMs: number): Promise<void> => {
    if (orphans.length === 0) return
    await history.recordClaims(
      tx,
      orphans.map(({ key }) => key),
    )
    await tx`
      WITH reported AS (
        UPDATE jobs SET orphaned_at = ${nowMs}::bigint
        FROM unnest(${numbers(orphans.map(({ key }) => key))}::bigint[],
          ${numbers(orphans.map(({ attempt }) => attempt))}::bigint[]) AS given (key, attempt)
        WHERE ${held(tx)} RETURNING jobs.key, jobs.attempt, jobs.worker
      )
      INSERT INTO events (job, at, kind, attempt, worker)
      SELECT key, ${nowMs}::bigint, 'orphaned', attempt, worker FROM reported`
  }

  const reclaimTogether = async (tx: Tx, reclaims: readonly Reclaim[], nowMs: number): Promise<CloseAnswer[]> => {
    const effects: Effects = { moves: new Map(), notices: [] }
    const done = new Set<Reclaim>()
    for (const round of roundsOf(reclaims)) {
      const rows = await lockHeld(tx, round)
      // The others are no error: their worker renewed, started or closed after the reclaiming worker read the job.
      const still = round.filter((reclaim) => isStill(reclaim, rows.get(reclaim.key), nowMs))
      const orphans = still.filter(({ change }) => change.to === 'orphaned')
      await markOrphans(tx, orphans, nowMs)
      for (const { key, notices } of orphans) {
        if (notices !== undefined) effects.notices.push({ notices, batch: rows.get(key)?.batch ?? null })
      }
      const endings = still.flatMap((reclaim): Ending[] => {
        const { key, attempt, change, notices } = reclaim
        if (change.to === 'orphaned') return []
        const { worker, batch } = rows.get(key) as HeldRow
        return [{ key, attempt, worker, change, ranMs: null, batch, ...(notices && { notices }) }]
      })
      if (endings.length > 0) await endAll(tx, endings, effects, nowMs)
      for (const reclaim of still) done.add(reclaim)
    }
    await applyEffects(tx, effects, nowMs)
    return reclaims.map((reclaim) => (done.has(reclaim) ? 'closed' : 'lost'))
  }

  const startIn = async (
    tx: Tx,
    worker: WorkerKey,
    attempts: readonly Started[],
    nowMs: number,
  ): Promise<{ lost: JobKey[] }> => {
    const sorted = attempts.toSorted((a, b) => a.key - b.key)
    const begun = await tx<Held[]>`
    WITH held AS MATERIALIZED (
      SELECT jobs.key, given.ago, jobs.untold_claim
      FROM unnest(${numbers(sorted.map(({ key }) => key))}::bigint[],
        ${numbers(sorted.map(({ attempt }) => attempt))}::bigint[],
        ${numbers(sorted.map(({ agoMs }) => Math.round(agoMs)))}::bigint[]) AS given (key, attempt, ago)
      CROSS JOIN LATERAL (SELECT * FROM jobs WHERE ${held(tx)} AND jobs.started_at IS NULL FOR UPDATE) AS jobs
    ), begun AS (
      UPDATE jobs SET started_at = greatest(jobs.claimed_at, ${nowMs}::bigint - held.ago), untold_claim = NULL
      FROM held WHERE jobs.key = held.key
      RETURNING jobs.key, jobs.attempt, jobs.worker, jobs.started_at, held.untold_claim
    ), recorded AS (
      INSERT INTO events (job, at, kind, attempt, worker, claimed_at)
      SELECT key, started_at, 'started', attempt, worker, untold_claim FROM begun
    )
    SELECT key, attempt FROM begun`
    const missed = attempts.filter(without(begun))
    if (missed.length === 0) return { lost: [] }
    // ChangeNotices again, because the answer to the first time was lost; or gone.
    const open = await lockHeld(tx, missed)
    const lost = notInDoubt(
      missed.filter(({ key }) => !open.has(key)),
      worker,
    )
    await refuse(tx, lost, 'start', nowMs)
    return { lost: lost.map(({ key }) => key) }
  }

  const renewIn = async (tx: Tx, worker: WorkerKey, leases: readonly Renewal[], nowMs: number): Promise<Renewed> => {
    // The rows are locked first, by ascending keys: only then is it certain which of them were orphans.
    const sorted = leases.toSorted((a, b) => a.key - b.key)
    const [renewed] = await Promise.all([
      tx<Held[]>`
      WITH held AS MATERIALIZED (
        SELECT jobs.key, jobs.attempt, jobs.worker, jobs.orphaned_at, given.ttl
        FROM unnest(${numbers(sorted.map(({ key }) => key))}::bigint[],
          ${numbers(sorted.map(({ attempt }) => attempt))}::bigint[],
          ${numbers(sorted.map(({ ttlMs }) => Math.round(ttlMs)))}::bigint[]) AS given (key, attempt, ttl)
        CROSS JOIN LATERAL (SELECT * FROM jobs WHERE ${held(tx)} FOR UPDATE) AS jobs
      ), extended AS (
        UPDATE jobs SET lease_until = ${nowMs}::bigint + held.ttl, orphaned_at = NULL
        FROM held WHERE jobs.key = held.key
      ), recorded AS (
        INSERT INTO events (job, at, kind, attempt, worker)
        SELECT key, ${nowMs}::bigint, 'recovered', attempt, worker FROM held WHERE orphaned_at IS NOT NULL
      )
      SELECT key, attempt FROM held`,
      tx`UPDATE workers SET seen_at = ${nowMs}, stopped_at = NULL WHERE key = ${worker}`,
    ])
    const lost = notInDoubt(leases.filter(without(renewed)), worker)
    await refuse(tx, lost, 'renew', nowMs)
    return { nowMs, lost: lost.map(({ key }) => key) }
  }

  const reportIn = async (tx: Tx, worker: WorkerKey, reports: readonly Report[], nowMs: number): Promise<JobKey[]> => {
    const lost = notInDoubt(await reported.add(tx, reports, nowMs), worker)
    await refuse(tx, lost, 'report', nowMs)
    return lost.map(({ key }) => key)
  }

  return {
    close: ({ worker, closes }: { worker: WorkerKey; closes: readonly Close[] }): Promise<CloseAnswer[]> =>
      closes.length === 0 ? Promise.resolve([]) : group.add({ worker, closes }),

    /** Finishes pending closes before the store stops. */
    drain: () => group.drain(),

    start: ({ worker, attempts }: { worker: WorkerKey; attempts: readonly Started[] }): Promise<{ lost: JobKey[] }> => {
      const start = async (tx: Tx, nowMs: number) => {
        const answer = await startIn(tx, worker, attempts, nowMs)
        const begun = withTtlBegun(attempts, answer.lost)
        if (begun.length > 0) await awaiting(forgetTtl(txOf(tx), begun))
        return answer
      }
      return sends.send(attempts, () => write('marking attempts as started', start, undefined, AT_ONCE))
    },

    renew: ({ worker, leases }: { worker: WorkerKey; leases: readonly Renewal[] }): Promise<Renewed> => {
      const renew = (tx: Tx, nowMs: number) => renewIn(tx, worker, leases, nowMs)
      const shortestMs = leases.reduce((ms, { ttlMs }) => Math.min(ms, ttlMs), Number.POSITIVE_INFINITY)
      // An unanswered renewal must time out early enough for another one.
      const deadlineMs = Math.min(RENEWAL_MS_MAX, Math.max(RENEWAL_MS_MIN, shortestMs / 3))
      return sends.send(leases, () => write('renewing leases', renew, undefined, { ...AT_ONCE, deadlineMs }))
    },

    report: async ({
      worker,
      reports,
    }: {
      worker: WorkerKey
      reports: readonly Report[]
    }): Promise<{ lost: JobKey[] }> => {
      const report = (tx: Tx, nowMs: number) => reportIn(tx, worker, reports, nowMs)
      const how = { ...AT_ONCE, mayRepeat: true, deadlineMs: RENEWAL_MS_MAX }
      return { lost: await sends.send(reports, () => write('keeping reports of handlers', report, undefined, how)) }
    },

    reclaim: ({ reclaims }: { reclaims: readonly Reclaim[] }): Promise<CloseAnswer[]> =>
      write('reclaiming', (tx, nowMs) => {
        wakeWorkers(tx)
        return reclaimTogether(tx, reclaims, nowMs)
      }),
  }
}

function endingOf({ key, attempt, change, ranMs, batch = null, report, notices }: Close, worker: WorkerKey): Ending {
  const ran = ranMs === null ? null : Math.round(ranMs)
  return { key, attempt, worker, change, ranMs: ran, batch, ...(report && { report }), ...(notices && { notices }) }
}

function note({ moves, notices }: Effects, { change, notices: told }: Ending, batch: BatchKey | null): void {
  if (told !== undefined && change.to !== 'complete') notices.push({ notices: told, batch })
  if (batch === null || change.to === 'queued') return
  const isPermanent = change.to === 'failed' && change.isPermanent
  const name = `${batch} ${change.to} ${isPermanent}`
  const move = moves.get(name) ?? { batch, to: change.to, isPermanent, times: 0 }
  move.times++
  moves.set(name, move)
}

function isStill({ expect, change }: Reclaim, row: HeldRow | undefined, nowMs: number): row is HeldRow {
  if (row === undefined) return false
  const now = { leaseUntilMs: row.lease_until, startedAtMs: row.started_at, orphanedAtMs: row.orphaned_at }
  return isStillReclaimable(expect, change.to, now, nowMs)
}

/** Groups in which each job occurs once: a second write to a job runs after the first, and usually comes too late. */
function roundsOf<Write extends Held>(writes: readonly Write[]): Write[][] {
  const rounds: Write[][] = []
  const seen = new Map<JobKey, number>()
  for (const one of writes) {
    const turn = seen.get(one.key) ?? 0
    seen.set(one.key, turn + 1)
    const round = rounds[turn]
    if (round === undefined) rounds.push([one])
    else round.push(one)
  }
  return rounds
}

/** A filter for attempts that were not found. */
function without(found: readonly Held[]): (one: Held) => boolean {
  const names = new Set(found.map(({ key, attempt }) => `${key} ${attempt}`))
  return ({ key, attempt }) => !names.has(`${key} ${attempt}`)
}
