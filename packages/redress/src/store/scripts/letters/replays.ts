import { nextStep, type ReplayState, type ReplayStep, type Skip, stateAfter } from '../../../core/dead-letter/replay.ts'
import { RedressError } from '../../../core/errors.ts'
import type { DecidedItem, NewReplayItem, ReplayStore, ReplayTurn } from '../../contract/replays.ts'
import type { NewJob } from '../../contract/store.ts'
import type { ScriptContext, Tx } from '../tx/context.ts'
import type { Script } from '../tx/script.ts'
import { sql } from '../tx/sql.ts'
import type { Letters } from './dead-letters.ts'
import {
  countReplay,
  listReplayItems,
  listReplays,
  type ReplayRow,
  replayJobs,
  standingOf,
  startedBy,
  toReplay,
} from './replay-rows.ts'

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
export function openReplays(context: ScriptContext, letters: Letters): ReplayStore {
  const { dialect, history, read, write } = context

  const find = (tx: Tx, id: string) => tx.get<ReplayRow>`SELECT * FROM replays WHERE id = ${id}`

  const needed = function* (tx: Tx, id: string): Script<ReplayRow> {
    const row = yield* find(tx, id)
    if (row === undefined) throw new RedressError('REPLAY_NOT_FOUND', `There is no replay ${id}.`)
    return row
  }

  // A time further away than a turn, a look at the canary or a step of the pace means that the clock was set back.
  const due = (tx: Tx, nowMs: number, turnMs: number) => tx.all<ReplayRow>`
    SELECT * FROM replays WHERE next_at IS NOT NULL AND (next_at <= ${nowMs}
      OR next_at > CAST(${nowMs + turnMs} AS bigint) + 1000 / ${dialect.least}(1.0, coalesce(per_second, 1)))
    ORDER BY next_at, key`

  const move = function* (
    tx: Tx,
    { key }: ReplayRow,
    to: { state: ReplayState; why: string; isCanaryOver: boolean; nextAtMs: number | null; endedAtMs: number | null },
  ): Script<void> {
    yield* tx.run`
      UPDATE replays SET state = ${to.state}, why = ${to.why}, canary_over = ${Number(to.isCanaryOver)},
        next_at = ${to.nextAtMs}, ended_at = ${to.endedAtMs} WHERE key = ${key}`
  }

  const postpone = function* (tx: Tx, { key }: ReplayRow, untilMs: number): Script<void> {
    yield* tx.run`UPDATE replays SET next_at = ${untilMs} WHERE key = ${key}`
  }

  const addEvent = (
    tx: Tx,
    id: string,
    kind: Exclude<ReplayState, 'planning'> | 'resumed',
    atMs: number,
    data: object,
  ) => history.subjectEvent(tx, `replay:${id}`, atMs, kind, data)

  const stepOf = function* (tx: Tx, row: ReplayRow, atMs: number): Script<ReplayStep> {
    // Core asks for them only while it waits for the canary.
    const jobs = row.state === 'canary' ? yield* replayJobs(tx, row.key) : null
    const canaryJobs = () => {
      const { queued = 0, processing = 0, failed = 0, cancelled = 0 } = jobs ?? {}
      // A removed job had ended, and no failed job is removed while its letter is there.
      return { unfinished: queued + processing, failed, cancelled }
    }
    return nextStep(standingOf(row), canaryJobs, atMs)
  }

  /** Takes the steps that need no letters: the end, or the verdict on the canary. Answers with the step that follows. */
  const settle = function* (tx: Tx, row: ReplayRow, atMs: number): Script<ReplayStep> {
    const step = yield* stepOf(tx, row, atMs)
    if (step.kind !== 'move') return step
    const { id } = row
    const isUnderWay = step.to === 'running'
    yield* move(tx, row, {
      state: step.to,
      why: step.why,
      isCanaryOver: isUnderWay || row.canary_over === 1,
      nextAtMs: isUnderWay ? atMs : null,
      endedAtMs: step.to === 'done' ? atMs : null,
    })
    yield* addEvent(tx, id, step.to, atMs, { why: step.why })
    return isUnderWay ? yield* settle(tx, yield* needed(tx, id), atMs) : step
  }

  /** The decided items that no other process has settled. */
  const stillWaiting = function* (
    tx: Tx,
    { key }: ReplayRow,
    decided: readonly DecidedItem[],
  ): Script<{ item: ItemRow; decision: DecidedItem['decision'] }[]> {
    const rows = yield* tx.all<ItemRow>`
      SELECT position, "offset", replays_seen, job FROM replay_items
      WHERE replay = ${key} AND position ${dialect.inNumbers(decided.map(({ position }) => position))}
        AND state = 'waiting'`
    const byPosition = new Map(rows.map((row) => [row.position, row]))
    return decided.flatMap(({ position, decision }) => {
      const item = byPosition.get(position)
      byPosition.delete(position)
      return item === undefined ? [] : [{ item, decision }]
    })
  }

  /** Makes at most `count` jobs, in the order of the items. */
  const settleItems = function* (
    tx: Tx,
    row: ReplayRow,
    decided: readonly DecidedItem[],
    count: number,
    atMs: number,
  ): Script<Settled[]> {
    const settled: Settled[] = []
    let made = 0
    let rest = yield* stillWaiting(tx, row, decided)
    while (rest.length > 0 && made < count) {
      // No more at once than may still become jobs: a skipped item makes room for another.
      const end = nthIndex(rest, ({ decision }) => 'job' in decision, count - made)
      const some = rest.slice(0, end)
      rest = rest.slice(end)
      const wanted = some.flatMap(({ item, decision }) => ('job' in decision ? [{ item, job: decision.job }] : []))
      const replays = wanted.map(({ item, job }) => replayOf(item, job))
      const replayed = replays.length === 0 ? [] : yield* letters.replayMany(tx, replays, row.patch !== null, atMs)
      const skips = new Map(wanted.map(({ item }, i) => [item.position, replayed[i]?.skip ?? null]))
      for (const { item, decision } of some) {
        const skip = 'skip' in decision ? decision.skip : (skips.get(item.position) ?? null)
        if (skip === null) made++
        settled.push({ item, skip })
      }
    }
    yield* note(tx, row, settled)
    return settled
  }

  const note = function* (tx: Tx, { key }: ReplayRow, settled: readonly Settled[]): Script<void> {
    if (settled.length === 0) return
    const rows = settled.map(({ item: { position }, skip }) => ({
      ...{ position, code: skip?.code ?? null, why: skip?.why ?? null },
    }))
    yield* tx.run`
      UPDATE replay_items SET state = CASE WHEN settled.code IS NULL THEN 'submitted' ELSE 'skipped' END,
        skip_code = settled.code, why = settled.why
      FROM ${dialect.table({ position: 'bigint', code: 'text', why: 'text' }, rows)} AS settled
      WHERE replay = ${key} AND replay_items.position = settled.position`
  }

  return {
    draftReplay: ({ id, selection, patch, perSecond, canary, canaryFailuresMax, actor, reason }) =>
      write(
        'planning a replay',
        function* (tx, atMs) {
          yield* tx.run`
            INSERT INTO replays (id, state, why, selection, patch, per_second, canary, canary_failures_max, actor, reason,
              created_at)
            VALUES (${id}, 'planning', 'its letters are being chosen', ${JSON.stringify(selection)}, ${patch}, ${perSecond},
              ${canary}, ${canaryFailuresMax}, ${actor}, ${reason}, ${atMs})`
          const entry = { atMs, act: 'replays.plan', target: 'replay', ids: [id], data: { selection } }
          yield* history.audit(tx, { actor, reason }, entry)
        },
        { alone: ALONE },
      ),

    addReplayItems: ({ id, items, isLast }) =>
      write(
        'planning a replay',
        function* (tx, atMs) {
          const row = yield* needed(tx, id)
          if (row.state !== 'planning') {
            throw new RedressError('REPLAY_WRONG_STATE', `Replay ${id} is ${row.state}: its selection is closed.`)
          }
          yield* addItems(tx, row, items)
          if (!isLast) return
          const why = 'it waits to be started'
          yield* move(tx, row, { state: 'planned', why, isCanaryOver: false, nextAtMs: null, endedAtMs: null })
          yield* addEvent(tx, id, 'planned', atMs, { letters: row.total + items.length })
        },
        { alone: ALONE },
      ),

    moveReplay: ({ id, act, expect, actor, reason }) =>
      write(
        `a replay: ${act}`,
        function* (tx, atMs) {
          const row = yield* needed(tx, id)
          if (row.state !== expect) return 'moved-on'
          const { canary, canary_over } = row
          const next = stateAfter(act, { state: row.state, canary, isCanaryOver: canary_over === 1 })
          if (next === null)
            throw new RedressError('REPLAY_WRONG_STATE', `A replay that is ${row.state} does not allow ${act}.`)
          const { state, isCanaryOver } = next
          const isUnderWay = state === 'canary' || state === 'running'
          // The pace begins anew: jobs that were not sent during a pause are not made up for.
          if (isUnderWay) {
            yield* tx.run`
              UPDATE replays SET started_by = ${actor}, started_reason = ${reason},
                started_at = coalesce(started_at, ${atMs}), anchor = ${atMs}, sent = 0 WHERE key = ${row.key}`
          }
          yield* move(tx, row, {
            state,
            why: `${actor}: ${reason}`,
            isCanaryOver,
            nextAtMs: isUnderWay ? atMs : null,
            endedAtMs: state === 'aborted' ? atMs : null,
          })
          yield* addEvent(tx, id, act === 'resume' ? 'resumed' : state, atMs, { actor, reason })
          yield* history.audit(tx, { actor, reason }, { atMs, act: `replays.${act}`, target: 'replay', ids: [id] })
          if (isUnderWay) tx.wakeWorkers()
          return 'done'
        },
        { alone: ALONE },
      ),

    replay: ({ id }) =>
      read('reading a replay', function* (tx) {
        const row = yield* find(tx, id)
        return row === undefined ? null : toReplay(row)
      }),
    replays: (params) => read('listing replays', (tx) => listReplays(tx, params)),
    replayItems: (params) =>
      read('reading the letters of a replay', function* (tx) {
        const { key } = yield* needed(tx, params.id)
        return yield* listReplayItems(tx, key, params)
      }),
    replayCounts: ({ id }) =>
      read('counting the letters of a replay', function* (tx) {
        const { key } = yield* needed(tx, id)
        return yield* countReplay(tx, key)
      }),

    async takeReplayTurn({ types, turnMs, limit }) {
      // Usually nothing is due, which must not take a lock.
      const found = await read('looking for replays', function* (tx) {
        return yield* due(tx, yield* tx.now(), turnMs)
      })
      if (found.length === 0) return null
      return write(
        'replaying dead letters',
        function* (tx, atMs) {
          for (const row of yield* due(tx, atMs, turnMs)) {
            const turn = yield* takeTurn(tx, row, types, turnMs, limit, atMs)
            if (turn !== null) return turn
          }
          return null
        },
        { alone: ALONE },
      )
    },

    advanceReplay: ({ id, decided }) =>
      write(
        'replaying dead letters',
        function* (tx, atMs) {
          const row = yield* needed(tx, id)
          const step = yield* stepOf(tx, row, atMs)
          // Paused, stopped or overtaken since this process took the letters.
          if (step.kind !== 'submit') return { submitted: 0, skipped: 0 }
          const settled = yield* settleItems(tx, row, decided, step.count, atMs)
          const made = settled.filter(({ skip }) => skip === null).map(({ item }) => item)
          const submitted = made.length
          const skipped = settled.length - submitted
          yield* tx.run`
            UPDATE replays SET submitted = submitted + ${submitted}, skipped = skipped + ${skipped},
              anchor = ${step.pace.anchorMs}, sent = ${step.pace.sent + submitted} WHERE key = ${row.key}`
          if (submitted > 0) yield* auditStep(tx, row, made, atMs)
          const next = yield* settle(tx, yield* needed(tx, id), atMs)
          if (next.kind === 'submit') yield* postpone(tx, row, atMs)
          if (next.kind === 'wait') yield* postpone(tx, row, next.untilMs)
          if (submitted > 0) tx.wakeWorkers()
          return { submitted, skipped }
        },
        { alone: ALONE },
      ),

    nextReplayAtMs: () =>
      read('looking for replays', function* (tx) {
        const row = yield* tx.get<{ at: number | null }>`
          SELECT min(next_at) AS at FROM replays WHERE next_at IS NOT NULL`
        return row?.at ?? null
      }),
  }

  /** One entry for all jobs of the step, in the name of the person who started the replay. */
  function* auditStep(tx: Tx, row: ReplayRow, made: readonly ItemRow[], atMs: number): Script<void> {
    yield* history.audit(tx, startedBy(row), {
      atMs,
      act: 'replays.submit',
      target: 'replay',
      ids: [row.id, ...made.map(({ job }) => job)],
      data: { offsets: made.map(({ offset }) => offset) },
    })
  }

  function* addItems(tx: Tx, { key, total }: ReplayRow, items: readonly NewReplayItem[]): Script<void> {
    if (items.length === 0) return
    const rows = items.map(({ offset, type, replaysSeen, skip, job }) => ({
      ...{ offset, type, seen: replaysSeen, code: skip?.code ?? null, why: skip?.why ?? null, job },
    }))
    const columns = { offset: 'bigint', type: 'text', seen: 'bigint', code: 'text', why: 'text', job: 'text' } as const
    yield* tx.run`
      INSERT INTO replay_items (replay, position, "offset", type, replays_seen, state, skip_code, why, job)
      SELECT CAST(${key} AS bigint), CAST(${total} AS bigint) + i, "offset", type, seen,
        CASE WHEN code IS NULL THEN 'waiting' ELSE 'skipped' END, code, why, job
      FROM ${dialect.table(columns, rows)} AS item`
    const skipped = items.filter(({ skip }) => skip !== null).length
    yield* tx.run`UPDATE replays SET total = total + ${items.length}, skipped = skipped + ${skipped} WHERE key = ${key}`
  }

  /** null: this process knows none of its types and leaves the turn to one that does. */
  function* takeTurn(
    tx: Tx,
    row: ReplayRow,
    types: readonly string[],
    turnMs: number,
    limit: number,
    atMs: number,
  ): Script<ReplayTurn | null> {
    const step = yield* settle(tx, row, atMs)
    const { id, patch } = row
    const by = startedBy(row)
    if (step.kind === 'wait') yield* postpone(tx, row, step.untilMs)
    if (step.kind !== 'submit') return step.kind === 'move' ? { id, patch, by, items: [] } : null
    const most = Math.min(limit, step.count)
    const items = yield* waitingItems(tx, row.key, types, most)
    if (items.length === 0) return null
    // Other processes leave it alone until this turn is over. If this process dies, the next turn is theirs.
    yield* postpone(tx, row, atMs + turnMs)
    const offsets = items.map(({ offset }) => offset)
    const found = yield* letters.findMany(tx, offsets)
    const chosen = items.map(({ position, offset, job }) => ({ position, job, letter: found.get(offset) ?? null }))
    return { id, patch, by, items: chosen }
  }
}

/** The first ones of these types, each found by the index of waiting items. */
const waitingItems = (tx: Tx, replay: number, types: readonly string[], limit: number): Script<ItemRow[]> =>
  tx.all`${tx.dialect.choose({
    sqlite: sql`
      SELECT position, "offset", replays_seen, job FROM replay_items INDEXED BY replay_items_waiting
      WHERE replay = ${replay} AND state = 'waiting' AND type ${tx.dialect.inTexts(types)}
      ORDER BY position LIMIT ${limit}`,
    postgres: sql`
      SELECT found.* FROM unnest(${types}::text[]) AS known (type) CROSS JOIN LATERAL (
        SELECT position, "offset", replays_seen, job FROM replay_items
        WHERE replay = ${replay} AND state = 'waiting' AND type >= known.type AND type <= known.type
        ORDER BY type, position LIMIT ${limit}) AS found
      ORDER BY found.position LIMIT ${limit}`,
  })}`

const replayOf = ({ offset, replays_seen, job: id }: ItemRow, job: NewJob) => ({
  offset,
  replaysSeen: replays_seen,
  job: { ...job, id },
})

/** The length of the shortest start of the list with `count` items of this kind; the whole length if it has fewer. */
function nthIndex<T>(list: readonly T[], isOfKind: (item: T) => boolean, count: number): number {
  let found = 0
  const end = list.findIndex((item) => {
    if (isOfKind(item)) found++
    return found === count
  })
  return end === -1 ? list.length : end + 1
}
