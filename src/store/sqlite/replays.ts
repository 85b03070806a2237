import { type CanaryJobs, nextStep, type ReplayState, type ReplayStep, stateAfter } from '../../core/bulk-replay.ts'
import { RedressError } from '../../core/errors.ts'
import type { Skip } from '../../core/replay-obstacle.ts'
import { type ReplayRow, standingOf, startedBy, toReplay } from '../replay-rows.ts'
import type { DecidedItem, NewReplayItem, ReplayStore, ReplayTurn } from '../replays.ts'
import type { SqliteContext } from './context.ts'
import type { Letters } from './dead-letters.ts'
import { openReplayReading } from './replay-reading.ts'

interface ItemRow {
  position: number
  offset: number
  replays_seen: number
  job: string
}

/** The replay of many letters: every method is one transaction that looks before it changes. */
export function openReplays(context: SqliteContext, letters: Letters): ReplayStore {
  const { connection, history, nowMs, read, write, hintWork } = context
  const reading = openReplayReading(connection)

  const draft = connection.prepare(`
    INSERT INTO replays (id, state, why, selection, patch, per_second, canary, canary_failures_max, actor, reason,
      created_at)
    VALUES (?, 'planning', 'its letters are being chosen', ?, ?, ?, ?, ?, ?, ?, ?)`)
  const byId = connection.prepare('SELECT * FROM replays WHERE id = ?')
  const addItem = connection.prepare(`
    INSERT INTO replay_items (replay, position, "offset", type, replays_seen, state, skip_code, why, job)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`)
  const grow = connection.prepare('UPDATE replays SET total = total + ?2, skipped = skipped + ?3 WHERE key = ?1')
  const move = connection.prepare(
    'UPDATE replays SET state = ?2, why = ?3, canary_over = ?4, next_at = ?5, ended_at = ?6 WHERE key = ?1',
  )
  const begin = connection.prepare(`
    UPDATE replays SET started_by = ?2, started_reason = ?3, started_at = coalesce(started_at, ?4), anchor = ?4,
      sent = 0 WHERE key = ?1`)
  // Further away than a turn, a look at the canary or a step of the pace it can only be after the clock was set back.
  const due = connection.prepare(`
    SELECT * FROM replays WHERE next_at IS NOT NULL
      AND (next_at <= ?1 OR next_at > ?1 + ?2 + 1000 / min(1.0, coalesce(per_second, 1)))
    ORDER BY next_at, key`)
  const earliest = connection.prepare('SELECT min(next_at) AS at FROM replays WHERE next_at IS NOT NULL')
  const waitingItems = connection.prepare(`
    SELECT position, "offset", replays_seen, job FROM replay_items INDEXED BY replay_items_waiting
    WHERE replay = ?1 AND state = 'waiting' AND type IN (SELECT value FROM json_each(?2)) ORDER BY position LIMIT ?3`)
  const waitingItem = connection.prepare(`
    SELECT position, "offset", replays_seen, job FROM replay_items
    WHERE replay = ? AND position = ? AND state = 'waiting'`)
  const settleItem = connection.prepare(`
    UPDATE replay_items SET state = ?3, skip_code = ?4, why = ?5 WHERE replay = ?1 AND position = ?2`)
  const postpone = connection.prepare('UPDATE replays SET next_at = ?2 WHERE key = ?1')
  const advance = connection.prepare(`
    UPDATE replays SET submitted = submitted + ?2, skipped = skipped + ?3, anchor = ?4, sent = ?5 WHERE key = ?1`)

  const needed = (id: string): ReplayRow => {
    const row = byId.get(id) as ReplayRow | undefined
    if (row === undefined) throw new RedressError('REPLAY_NOT_FOUND', `There is no replay ${id}.`)
    return row
  }

  const tell = (id: string, kind: Exclude<ReplayState, 'planning'> | 'resumed', atMs: number, data: object) =>
    history.subjectEvent(`replay:${id}`, atMs, kind, data)

  const canaryJobs =
    ({ key }: ReplayRow) =>
    (): CanaryJobs => {
      const { queued, processing, failed, cancelled } = reading.jobsOf(key)
      // What its retention has removed had ended, and no failed job is removed while its letter is there.
      return { unfinished: queued + processing, failed, cancelled }
    }

  const stepOf = (row: ReplayRow, atMs: number) => nextStep(standingOf(row), canaryJobs(row), atMs)

  /** Does what needs no letters: the end, or the verdict on the canary. Answers with what is then to be done. */
  const settle = (row: ReplayRow, atMs: number): ReplayStep => {
    const step = stepOf(row, atMs)
    if (step.kind !== 'move') return step
    const { key, id } = row
    const isOver = step.to === 'done'
    const isUnderWay = step.to === 'running'
    move.run(key, step.to, step.why, isUnderWay ? 1 : row.canary_over, isUnderWay ? atMs : null, isOver ? atMs : null)
    tell(id, step.to, atMs, { why: step.why })
    return isUnderWay ? settle(needed(id), atMs) : step
  }

  const settleAs = (row: ReplayRow, item: ItemRow, skip: Skip | null) => {
    settleItem.run(
      row.key,
      item.position,
      skip === null ? 'submitted' : 'skipped',
      skip?.code ?? null,
      skip?.why ?? null,
    )
  }

  /** One decided item, if nobody else has settled it. */
  const take = (row: ReplayRow, { position, decision }: DecidedItem, atMs: number): ItemRow | 'skipped' | null => {
    const item = waitingItem.get(row.key, position) as ItemRow | undefined
    if (item === undefined) return null
    if ('skip' in decision) {
      settleAs(row, item, decision.skip)
      return 'skipped'
    }
    const job = { ...decision.job, id: item.job }
    const { skip } = letters.replay(item.offset, item.replays_seen, row.patch !== null, job, atMs)
    settleAs(row, item, skip)
    return skip === null ? item : 'skipped'
  }

  return {
    draftReplay: ({ id, selection, patch, perSecond, canary, canaryFailuresMax, actor, reason }) =>
      write('planning a replay', () => {
        const atMs = nowMs()
        const chosen = JSON.stringify(selection)
        draft.run(id, chosen, patch, perSecond, canary, canaryFailuresMax, actor, reason, atMs)
        history.audit(
          { actor, reason },
          { atMs, act: 'replays.plan', target: 'replay', ids: [id], data: { selection } },
        )
      }),

    addReplayItems: ({ id, items, isLast }) =>
      write('planning a replay', () => {
        const row = needed(id)
        if (row.state !== 'planning') {
          throw new RedressError('REPLAY_WRONG_STATE', `Replay ${id} is ${row.state}: its selection is closed.`)
        }
        for (const [i, item] of items.entries()) add(row, row.total + i + 1, item)
        grow.run(row.key, items.length, items.filter(({ skip }) => skip !== null).length)
        if (!isLast) return
        move.run(row.key, 'planned', 'it waits to be started', 0, null, null)
        tell(id, 'planned', nowMs(), { letters: row.total + items.length })
      }),

    moveReplay: ({ id, act, expect, actor, reason }) =>
      write(`a replay: ${act}`, () => {
        const row = needed(id)
        if (row.state !== expect) return 'moved-on'
        const { canary, canary_over } = row
        const next = stateAfter(act, { state: row.state, canary, isCanaryOver: canary_over === 1 })
        if (next === null)
          throw new RedressError('REPLAY_WRONG_STATE', `A replay that is ${row.state} knows no ${act}.`)
        const atMs = nowMs()
        const { state, isCanaryOver } = next
        const isUnderWay = state === 'canary' || state === 'running'
        // The pace begins anew: what was not sent during a pause is not made up for.
        if (isUnderWay) begin.run(row.key, actor, reason, atMs)
        const why = `${actor}: ${reason}`
        move.run(row.key, state, why, Number(isCanaryOver), isUnderWay ? atMs : null, state === 'aborted' ? atMs : null)
        tell(id, act === 'resume' ? 'resumed' : state, atMs, { actor, reason })
        history.audit({ actor, reason }, { atMs, act: `replays.${act}`, target: 'replay', ids: [id] })
        if (isUnderWay) hintWork()
        return 'done'
      }),

    replay: ({ id }) =>
      read('reading a replay', () => {
        const row = byId.get(id) as ReplayRow | undefined
        return row === undefined ? null : toReplay(row)
      }),
    replays: (params) => read('listing replays', () => reading.list(params)),
    replayItems: (params) =>
      read('reading the letters of a replay', () => reading.items(needed(params.id).key, params)),
    replayCounts: ({ id }) => read('counting the letters of a replay', () => reading.counts(needed(id).key)),

    async takeReplayTurn({ types, turnMs, limit }) {
      // A look costs nothing, a transaction does: nearly always there is nothing to do.
      const isDue = await read('looking for replays', () => due.get(nowMs(), turnMs) !== undefined)
      if (!isDue) return null
      return write('replaying dead letters', () => {
        const atMs = nowMs()
        const known = JSON.stringify(types)
        for (const row of due.all(atMs, turnMs) as unknown as ReplayRow[]) {
          const turn = takeTurn(row, known, turnMs, limit, atMs)
          if (turn !== null) return turn
        }
        return null
      })
    },

    advanceReplay: ({ id, decided }) =>
      write('replaying dead letters', () => {
        const atMs = nowMs()
        const row = needed(id)
        const step = stepOf(row, atMs)
        // Paused, stopped or overtaken since the letters were taken in hand.
        if (step.kind !== 'submit') return { submitted: 0, skipped: 0 }
        const made: ItemRow[] = []
        let skipped = 0
        for (const item of decided) {
          if (made.length >= step.count) break
          const became = take(row, item, atMs)
          if (became === 'skipped') skipped++
          else if (became !== null) made.push(became)
        }
        const submitted = made.length
        advance.run(row.key, submitted, skipped, step.pace.anchorMs, step.pace.sent + submitted)
        if (submitted > 0) auditStep(row, made, atMs)
        const next = settle(needed(id), atMs)
        if (next.kind === 'submit') postpone.run(row.key, atMs)
        if (next.kind === 'wait') postpone.run(row.key, next.untilMs)
        if (submitted > 0) hintWork()
        return { submitted, skipped }
      }),

    nextReplayAtMs: () =>
      read('looking for replays', () => (earliest.get() as { at: number | null } | undefined)?.at ?? null),
  }

  /** One entry for all jobs of the step, in the name of whoever set the replay going. */
  function auditStep(row: ReplayRow, made: readonly ItemRow[], atMs: number): void {
    history.audit(startedBy(row), {
      atMs,
      act: 'replays.submit',
      target: 'replay',
      ids: [row.id, ...made.map(({ job }) => job)],
      data: { offsets: made.map(({ offset }) => offset) },
    })
  }

  function add(row: ReplayRow, position: number, { offset, type, replaysSeen, job, skip }: NewReplayItem): void {
    const state = skip === null ? 'waiting' : 'skipped'
    addItem.run(row.key, position, offset, type, replaysSeen, state, skip?.code ?? null, skip?.why ?? null, job)
  }

  /** null: this process can do nothing for it, and must not keep it from one that can. */
  function takeTurn(row: ReplayRow, types: string, turnMs: number, limit: number, atMs: number): ReplayTurn | null {
    const step = settle(row, atMs)
    const { id, patch } = row
    const by = startedBy(row)
    if (step.kind === 'wait') postpone.run(row.key, step.untilMs)
    if (step.kind !== 'submit') return step.kind === 'move' ? { id, patch, by, items: [] } : null
    const items = waitingItems.all(row.key, types, Math.min(limit, step.count)) as unknown as ItemRow[]
    if (items.length === 0) return null
    // For others it is not due until this turn is over; if it never ends, because this process does, theirs is next.
    postpone.run(row.key, atMs + turnMs)
    const chosen = items.map(({ position, offset, job }) => ({ position, job, letter: letters.find(offset) }))
    return { id, patch, by, items: chosen }
  }
}
