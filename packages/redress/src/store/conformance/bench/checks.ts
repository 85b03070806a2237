import assert from 'node:assert/strict'
import type { JobEvent } from '../../../core/job/events.ts'
import { type RebuiltState, rebuild } from '../../../core/job/rebuild.ts'
import { TERMINAL } from '../../../core/job/states.ts'
import type { JobRow } from '../../contract/store.ts'

/** What must hold of any job at any moment, whatever happened to it. */
export function checkJob(row: JobRow, events: readonly JobEvent[]): void {
  checkColumns(row)
  checkOrder(row, events)
  assert.deepEqual(rebuild(events), stateOf(row), `the history of job ${row.id} does not lead to its row`)
  const given = events.findLast(({ kind }) => kind === 'reprioritised')
  assert.equal(
    row.priority,
    given?.data.priority ?? row.priority,
    `job ${row.id} has not the priority that it was given`,
  )
}

/** The part of a row that its history determines. */
function stateOf(row: JobRow): RebuiltState {
  return {
    status: row.status,
    attempt: row.attempt,
    worker: row.lease?.worker ?? null,
    spent: row.spent,
    dueAtMs: row.dueAtMs,
    failure: row.failure,
    isOrphaned: row.orphanedAtMs !== null,
    isCancelRequested: row.cancelRequestedAtMs !== null,
  }
}

function checkColumns(row: JobRow): void {
  const { id, status } = row
  const isProcessing = status === 'processing'
  const must = (holds: boolean, what: string): void => assert(holds, `job ${id} is ${status}, but ${what}`)
  must((row.lease !== null) === isProcessing, 'a lease is held exactly while processing')
  must((row.finishedAtMs !== null) === TERMINAL.has(status), 'it has a time of finishing exactly in a terminal state')
  must((row.failure !== null) === (status === 'failed'), 'it points to a failure exactly when failed')
  must(row.result === null || status === 'complete', 'only a complete job has a result')
  must(row.dueAtMs === null || status === 'queued', 'only a queued job waits for a time')
  must(row.orphanedAtMs === null || isProcessing, 'only a processing job can be an orphan')
  must(row.cancelRequestedAtMs === null || isProcessing, 'only a processing job waits to be cancelled')
  must(status !== 'queued' || (row.claimedAtMs === null && row.startedAtMs === null), 'a queued job has not begun')
  must(status !== 'queued' || row.progress === 0, 'a queued job has made no progress')
  must(status !== 'complete' || row.progress === 1, 'a complete job is all done')
  must(!isProcessing || (row.claimedAtMs !== null && row.attempt > 0), 'a processing job was claimed')
  must(!row.isForwardOnly || row.attempt <= 1, 'a job that only goes forward is dispatched once')
  must(row.startedAtMs === null || row.startedAtMs >= (row.claimedAtMs ?? 0), 'it started before it was claimed')
}

function checkOrder({ id }: JobRow, events: readonly JobEvent[]): void {
  for (const [i, event] of events.entries()) {
    const before = events[i - 1]
    assert(before === undefined || event.seq > before.seq, `events of job ${id} are not in the order of their numbers`)
    assert.equal(event.jobId, id, 'an event stands in the history of another job')
  }
}
