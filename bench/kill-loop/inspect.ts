import { existsSync, readFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import type { JobEvent, Store } from 'redress'
import { checkJob } from 'redress/testing'

export interface Inspection {
  acknowledged: number
  jobs: number
  attempts: number
  reclaimed: number
  /** Writes of workers that had lost their lease. */
  refused: number
  problems: string[]
}

const PAGE = 500
const ID_LINE = /^[0-9a-f-]{36}$/

type Row = Parameters<typeof checkJob>[0]

/** What must hold after any number of kills: nothing acknowledged is lost, nothing is done twice, all of it is told. */
export async function inspect(store: Store, file: string, acknowledged: string): Promise<Inspection> {
  const acknowledgedIds = readAcknowledged(acknowledged)
  const seen: Inspection = {
    acknowledged: acknowledgedIds.size,
    jobs: 0,
    attempts: 0,
    reclaimed: 0,
    refused: 0,
    problems: integrityProblems(file),
  }
  for await (const row of allJobs(store)) {
    const events = await store.events({ id: row.id })
    acknowledgedIds.delete(row.id)
    seen.jobs++
    seen.attempts += row.attempt
    seen.reclaimed += count(events, 'reclaimed')
    seen.refused += count(events, 'lost')
    seen.problems.push(...jobProblems(row, events).map((problem) => `${row.id}: ${problem}`))
  }
  for (const id of acknowledgedIds) seen.problems.push(`${id}: was acknowledged and is lost`)
  return seen
}

function readAcknowledged(path: string): Set<string> {
  if (!existsSync(path)) return new Set()
  const lines = readFileSync(path, 'utf8').split('\n')
  // What follows the last line end was cut off.
  return new Set(lines.slice(0, -1).filter((line) => ID_LINE.test(line)))
}

async function* allJobs(store: Store): AsyncGenerator<Row> {
  let beforeKey = Number.MAX_SAFE_INTEGER
  for (;;) {
    const page = await store.jobs({ beforeKey, limit: PAGE })
    yield* page
    const last = page.at(-1)
    if (last === undefined) return
    beforeKey = last.key
  }
}

function jobProblems(row: Row, events: readonly JobEvent[]): string[] {
  const problems: string[] = []
  if (row.status !== 'complete') problems.push(`is ${row.status}`)
  if (count(events, 'complete') !== 1) problems.push(`was completed ${count(events, 'complete')} times`)
  try {
    checkJob(row, events)
  } catch (error) {
    problems.push(error instanceof Error ? error.message : String(error))
  }
  return [...problems, ...fenceProblems(events), ...refusalProblems(events)]
}

/** Whatever is written about an attempt comes from the worker that has it, while it has it. */
function fenceProblems(events: readonly JobEvent[]): string[] {
  let holder: JobEvent | undefined
  return events.flatMap((event) => {
    if (event.kind === 'processing') holder = event
    if (!OF_AN_ATTEMPT.has(event.kind)) return []
    const isItsOwn = event.attempt === holder?.attempt && event.worker === holder.worker
    return isItsOwn ? [] : [`${event.kind} of attempt ${event.attempt} was written while ${holder?.attempt} was open`]
  })
}

const OF_AN_ATTEMPT = new Set<JobEvent['kind']>(['started', 'complete', 'retry', 'failed', 'released', 'snoozed'])

/** A refused write is evidence of a zombie: of an attempt that was taken away, never of one that ended as it should. */
function refusalProblems(events: readonly JobEvent[]): string[] {
  const endings = new Set(['complete', 'retry', 'failed', 'released', 'snoozed'])
  return events
    .filter((event) => event.kind === 'lost')
    .filter(({ attempt, worker }) =>
      events.some((other) => endings.has(other.kind) && other.attempt === attempt && other.worker === worker),
    )
    .map(({ attempt, data }) => `attempt ${attempt} ended, and its own worker was then refused to ${data.write}`)
}

const count = (events: readonly JobEvent[], kind: JobEvent['kind']): number =>
  events.filter((event) => event.kind === kind).length

function integrityProblems(file: string): string[] {
  const database = new DatabaseSync(file)
  const answers = database.prepare('PRAGMA integrity_check').all() as { integrity_check: string }[]
  database.close()
  return answers.map((answer) => answer.integrity_check).filter((answer) => answer !== 'ok')
}
