import { nextStep, type ReplayState, type ReplayStep, stateAfter } from '../../core/bulk-replay.ts'
import { RedressError } from '../../core/errors.ts'
import type { Skip } from '../../core/replay-obstacle.ts'
import { type ReplayRow, standingOf, startedBy, toReplay } from '../replay-rows.ts'
import type { DecidedItem, NewReplayItem, ReplayStore, ReplayTurn } from '../replays.ts'
import type { NewJob } from '../store.ts'
import type { Sql, Tx } from './client.ts'
import type { PgContext } from './context.ts'
import type { Letters } from './dead-letters.ts'
import { printable } from './history.ts'
import { countReplay, listReplayItems, listReplays, replayJobs } from './replay-reading.ts'

interface ItemRow {
  position: number
  offset: number
  replays_seen: number
  job: string
}

interface Settled {
  item: ItemRow
  skip: Skip | null
}

/** Steps of replays follow one another, whichever process takes them: each compares before it changes. */
const ALONE = 'replays'

/** The replay of many letters: every method is one transaction that looks before it changes. */
export function openReplays(context: PgContext, letters: Letters): ReplayStore {
  const { history, read, write, hintWork } = context

  const find = async (sql: Sql, id: string): Promise<ReplayRow | undefined> => {
    const [row] = await sql<ReplayRow[]>`SELECT * FROM replays WHERE id = ${printable(id)}`
    return row
  }

  const needed = async (sql: Sql, id: string): Promise<ReplayRow> => {
    const row = await find(sql, id)
    if (row === undefined) throw new RedressError('REPLAY_NOT_FOUND', `There is no replay ${id}.`)
    return row
  }

  // Further away than a turn, a look at the canary or a step of the pace it can only be after the clock was set back.
  const due = (sql: Sql, nowMs: number, turnMs: number) => sql<ReplayRow[]>`
    SELECT * FROM replays WHERE next_at IS NOT NULL AND (next_at <= ${nowMs}
      OR next_at > ${nowMs}::bigint + ${turnMs}::bigint + 1000 / least(1.0, coalesce(per_second, 1)))
    ORDER BY next_at, key`

  const move = async (
    tx: Tx,
    { key }: ReplayRow,
    to: { state: ReplayState; why: string; isCanaryOver: boolean; nextAtMs: number | null; endedAtMs: number | null },
  ): Promise<void> => {
    await tx`
      UPDATE replays SET state = ${to.state}, why = ${printable(to.why)}, canary_over = ${Number(to.isCanaryOver)},
        next_at = ${to.nextAtMs}, ended_at = ${to.endedAtMs} WHERE key = ${key}`
  }

  const postpone = async (tx: Tx, { key }: ReplayRow, untilMs: number): Promise<void> => {
    await tx`UPDATE replays SET next_at = ${untilMs} WHERE key = ${key}`
  }

  const tell = (tx: Tx, id: string, kind: Exclude<ReplayState, 'planning'> | 'resumed', atMs: number, data: object) =>
    history.subjectEvent(tx, `replay:${id}`, atMs, kind, data)

  const stepOf = async (tx: Tx, row: ReplayRow, atMs: number): Promise<ReplayStep> => {
    // Asked of core only while the first jobs are waited for.
    const jobs = row.state === 'canary' ? await replayJobs(tx, row.key) : null
    const canaryJobs = () => {
      const { queued = 0, processing = 0, failed = 0, cancelled = 0 } = jobs ?? {}
      // What its retention has removed had ended, and no failed job is removed while its letter is there.
      return { unfinished: queued + processing, failed, cancelled }
    }
    return nextStep(standingOf(row), canaryJobs, atMs)
  }

  /** Does what needs no letters: the end, or the verdict on the canary. Answers with what is then to be done. */
  const settle = async (tx: Tx, row: ReplayRow, atMs: number): Promise<ReplayStep> => {
    const step = await stepOf(tx, row, atMs)
    if (step.kind !== 'move') return step
    const { id } = row
    const isUnderWay = step.to === 'running'
    await move(tx, row, {
      state: step.to,
      why: step.why,
      isCanaryOver: isUnderWay || row.canary_over === 1,
      nextAtMs: isUnderWay ? atMs : null,
      endedAtMs: step.to === 'done' ? atMs : null,
    })
    await tell(tx, id, step.to, atMs, { why: step.why })
    return isUnderWay ? settle(tx, await needed(tx, id), atMs) : step
  }

  /** Those of the decided items that nobody else has settled. */
  const stillWaiting = async (
    tx: Tx,
    { key }: ReplayRow,
    decided: readonly DecidedItem[],
  ): Promise<{ item: ItemRow; decision: DecidedItem['decision'] }[]> => {
    const rows = await tx<ItemRow[]>`
      SELECT position, "offset", replays_seen, job FROM replay_items
      WHERE replay = ${key} AND position = ANY(${decided.map(({ position }) => position)}::bigint[])
        AND state = 'waiting'`
    const byPosition = new Map(rows.map((row) => [row.position, row]))
    return decided.flatMap(({ position, decision }) => {
      const item = byPosition.get(position)
      byPosition.delete(position)
      return item === undefined ? [] : [{ item, decision }]
    })
  }

  /** In their order, until as many jobs are made as may be. */
  const settleItems = async (
    tx: Tx,
    row: ReplayRow,
    decided: readonly DecidedItem[],
    count: number,
    atMs: number,
  ): Promise<Settled[]> => {
    const settled: Settled[] = []
    let made = 0
    let rest = await stillWaiting(tx, row, decided)
    while (rest.length > 0 && made < count) {
      // No more of them at once than may still become jobs: what is skipped makes room for others.
      const end = nthIndex(rest, ({ decision }) => 'job' in decision, count - made)
      const some = rest.slice(0, end)
      rest = rest.slice(end)
      const wanted = some.flatMap(({ item, decision }) => ('job' in decision ? [{ item, job: decision.job }] : []))
      const replays = wanted.map(({ item, job }) => replayOf(item, job))
      const replayed = replays.length === 0 ? [] : await letters.replayMany(tx, replays, row.patch !== null, atMs)
      const skips = new Map(wanted.map(({ item }, i) => [item.position, replayed[i]?.skip ?? null]))
      for (const { item, decision } of some) {
        const skip = 'skip' in decision ? decision.skip : (skips.get(item.position) ?? null)
        if (skip === null) made++
        settled.push({ item, skip })
      }
    }
    await note(tx, row, settled)
    return settled
  }

  const note = async (tx: Tx, { key }: ReplayRow, settled: readonly Settled[]): Promise<void> => {
    if (settled.length === 0) return
    await tx`
      UPDATE replay_items SET state = CASE WHEN settled.code IS NULL THEN 'submitted' ELSE 'skipped' END,
        skip_code = settled.code, why = settled.why
      FROM unnest(${settled.map(({ item }) => item.position)}::bigint[],
        ${settled.map(({ skip }) => skip?.code ?? null)}::text[],
        ${settled.map(({ skip }) => (skip === null ? null : printable(skip.why)))}::text[]) AS settled (position, code, why)
      WHERE replay = ${key} AND replay_items.position = settled.position`
  }

  return {
    draftReplay: ({ id, selection, patch, perSecond, canary, canaryFailuresMax, actor, reason }) =>
      write(
        'planning a replay',
        async (tx, atMs) => {
          await tx`
            INSERT INTO replays (id, state, why, selection, patch, per_second, canary, canary_failures_max, actor, reason,
              created_at)
            VALUES (${id}, 'planning', 'its letters are being chosen', ${JSON.stringify(selection)}, ${patch}, ${perSecond},
              ${canary}, ${canaryFailuresMax}, ${printable(actor)}, ${printable(reason)}, ${atMs})`
          const entry = { atMs, act: 'replays.plan', target: 'replay', ids: [id], data: { selection } }
          await history.audit(tx, { actor, reason }, entry)
        },
        ALONE,
      ),

    addReplayItems: ({ id, items, isLast }) =>
      write(
        'planning a replay',
        async (tx, atMs) => {
          const row = await needed(tx, id)
          if (row.state !== 'planning') {
            throw new RedressError('REPLAY_WRONG_STATE', `Replay ${id} is ${row.state}: its selection is closed.`)
          }
          await addItems(tx, row, items)
          if (!isLast) return
          const why = 'it waits to be started'
          await move(tx, row, { state: 'planned', why, isCanaryOver: false, nextAtMs: null, endedAtMs: null })
          await tell(tx, id, 'planned', atMs, { letters: row.total + items.length })
        },
        ALONE,
      ),

    moveReplay: ({ id, act, expect, actor, reason }) =>
      write(
        `a replay: ${act}`,
        async (tx, atMs) => {
          const row = await needed(tx, id)
          if (row.state !== expect) return 'moved-on'
          const { canary, canary_over } = row
          const next = stateAfter(act, { state: row.state, canary, isCanaryOver: canary_over === 1 })
          if (next === null)
            throw new RedressError('REPLAY_WRONG_STATE', `A replay that is ${row.state} knows no ${act}.`)
          const { state, isCanaryOver } = next
          const isUnderWay = state === 'canary' || state === 'running'
          // The pace begins anew: what was not sent during a pause is not made up for.
          if (isUnderWay) {
            await tx`
              UPDATE replays SET started_by = ${printable(actor)}, started_reason = ${printable(reason)},
                started_at = coalesce(started_at, ${atMs}), anchor = ${atMs}, sent = 0 WHERE key = ${row.key}`
          }
          await move(tx, row, {
            state,
            why: `${actor}: ${reason}`,
            isCanaryOver,
            nextAtMs: isUnderWay ? atMs : null,
            endedAtMs: state === 'aborted' ? atMs : null,
          })
          await tell(tx, id, act === 'resume' ? 'resumed' : state, atMs, { actor, reason })
          await history.audit(tx, { actor, reason }, { atMs, act: `replays.${act}`, target: 'replay', ids: [id] })
          if (isUnderWay) hintWork(tx)
          return 'done'
        },
        ALONE,
      ),

    replay: ({ id }) =>
      read('reading a replay', async (sql) => {
        const row = await find(sql, id)
        return row === undefined ? null : toReplay(row)
      }),
    replays: (params) => read('listing replays', (sql) => listReplays(sql, params)),
    replayItems: (params) =>
      read('reading the letters of a replay', async (sql) =>
        listReplayItems(sql, (await needed(sql, params.id)).key, params),
      ),
    replayCounts: ({ id }) =>
      read('counting the letters of a replay', async (sql) => countReplay(sql, (await needed(sql, id)).key)),

    async takeReplayTurn({ types, turnMs, limit }) {
      // A look costs little, a transaction more, and nearly always there is nothing to do.
      const found = await read('looking for replays', async (sql, nowMs) => due(sql, await nowMs(), turnMs))
      if (found.length === 0) return null
      return write(
        'replaying dead letters',
        async (tx, atMs) => {
          for (const row of await due(tx, atMs, turnMs)) {
            const turn = await takeTurn(tx, row, types, turnMs, limit, atMs)
            if (turn !== null) return turn
          }
          return null
        },
        ALONE,
      )
    },

    advanceReplay: ({ id, decided }) =>
      write(
        'replaying dead letters',
        async (tx, atMs) => {
          const row = await needed(tx, id)
          const step = await stepOf(tx, row, atMs)
          // Paused, stopped or overtaken since the letters were taken in hand.
          if (step.kind !== 'submit') return { submitted: 0, skipped: 0 }
          const settled = await settleItems(tx, row, decided, step.count, atMs)
          const made = settled.filter(({ skip }) => skip === null).map(({ item }) => item)
          const submitted = made.length
          const skipped = settled.length - submitted
          await tx`
            UPDATE replays SET submitted = submitted + ${submitted}, skipped = skipped + ${skipped},
              anchor = ${step.pace.anchorMs}, sent = ${step.pace.sent + submitted} WHERE key = ${row.key}`
          if (submitted > 0) await auditStep(tx, row, made, atMs)
          const next = await settle(tx, await needed(tx, id), atMs)
          if (next.kind === 'submit') await postpone(tx, row, atMs)
          if (next.kind === 'wait') await postpone(tx, row, next.untilMs)
          if (submitted > 0) hintWork(tx)
          return { submitted, skipped }
        },
        ALONE,
      ),

    nextReplayAtMs: () =>
      read('looking for replays', async (sql) => {
        const [row] = await sql<{ at: number | null }[]>`
          SELECT min(next_at) AS at FROM replays WHERE next_at IS NOT NULL`
        return row?.at ?? null
      }),
  }

  /** One entry for all jobs of the step, in the name of whoever set the replay going. */
  async function auditStep(tx: Tx, row: ReplayRow, made: readonly ItemRow[], atMs: number): Promise<void> {
    await history.audit(tx, startedBy(row), {
      atMs,
      act: 'replays.submit',
      target: 'replay',
      ids: [row.id, ...made.map(({ job }) => job)],
      data: { offsets: made.map(({ offset }) => offset) },
    })
  }

  async function addItems(tx: Tx, { key, total }: ReplayRow, items: readonly NewReplayItem[]): Promise<void> {
    if (items.length === 0) return
    const column = <T>(of: (item: NewReplayItem) => T): T[] => items.map(of)
    await tx`
      INSERT INTO replay_items (replay, position, "offset", type, replays_seen, state, skip_code, why, job)
      SELECT ${key}::bigint, ${total}::bigint + place, "offset", type, seen,
        CASE WHEN code IS NULL THEN 'waiting' ELSE 'skipped' END, code, why, job
      FROM unnest(${column(({ offset }) => offset)}::bigint[], ${column(({ type }) => type)}::text[],
        ${column(({ replaysSeen }) => replaysSeen)}::bigint[], ${column(({ skip }) => skip?.code ?? null)}::text[],
        ${column(({ skip }) => (skip === null ? null : printable(skip.why)))}::text[], ${column(({ job }) => job)}::text[])
        WITH ORDINALITY AS item ("offset", type, seen, code, why, job, place)`
    const skipped = items.filter(({ skip }) => skip !== null).length
    await tx`UPDATE replays SET total = total + ${items.length}, skipped = skipped + ${skipped} WHERE key = ${key}`
  }

  /** null: this process can do nothing for it, and must not keep it from one that can. */
  async function takeTurn(
    tx: Tx,
    row: ReplayRow,
    types: readonly string[],
    turnMs: number,
    limit: number,
    atMs: number,
  ): Promise<ReplayTurn | null> {
    const step = await settle(tx, row, atMs)
    const { id, patch } = row
    const by = startedBy(row)
    if (step.kind === 'wait') await postpone(tx, row, step.untilMs)
    if (step.kind !== 'submit') return step.kind === 'move' ? { id, patch, by, items: [] } : null
    const most = Math.min(limit, step.count)
    const items = await tx<ItemRow[]>`
      SELECT found.* FROM unnest(${types as string[]}::text[]) AS known (type) CROSS JOIN LATERAL (
        SELECT position, "offset", replays_seen, job FROM replay_items
        WHERE replay = ${row.key} AND state = 'waiting' AND type >= known.type AND type <= known.type
        ORDER BY type, position LIMIT ${most}) AS found
      ORDER BY found.position LIMIT ${most}`
    if (items.length === 0) return null
    // For others it is not due until this turn is over; if it never ends, because this process does, theirs is next.
    await postpone(tx, row, atMs + turnMs)
    const found = await letters.findMany(
      tx,
      items.map(({ offset }) => offset),
    )
    const chosen = items.map(({ position, offset, job }) => ({ position, job, letter: found.get(offset) ?? null }))
    return { id, patch, by, items: chosen }
  }
}

const replayOf = ({ offset, replays_seen, job: id }: ItemRow, job: NewJob) => ({
  offset,
  replaysSeen: replays_seen,
  job: { ...job, id },
})

/** Where the list has to end so that `count` of its items are of this kind; its length where there are fewer. */
function nthIndex<T>(list: readonly T[], isOfKind: (item: T) => boolean, count: number): number {
  let found = 0
  const end = list.findIndex((item) => {
    if (isOfKind(item)) found++
    return found === count
  })
  return end === -1 ? list.length : end + 1
}
