import { existsSync, readFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import type { JobEvent, Store } from 'redress/store'
import { checkJob } from 'redress/testing'

export interface Inspection {
  acknowledged: number
  jobs: number
  attempts: number
  reclaimed: number
  /** Writes of workers that had lost their lease. */
  refused: number
  /** Of those, the closes that their workers were told of. */
  toldRefused: number
  problems: string[]
}

/** Files in which the processes wrote down what they were told. */
export interface Notes {
  /** Submissions, by id. */
  acknowledged: string
  /** Closes that came too late, by id and attempt. */
  refused: string
}

const PAGE = 500
const ID_LINE = /^[0-9a-f-]{36}( \d+)?$/

type Row = Parameters<typeof checkJob>[0]

/** What must hold after any number of kills: nothing acknowledged is lost, nothing is done twice, all of it is told. */
export async function inspect(store: Store, notes: Notes): Promise<Inspection> {
  const acknowledgedIds = new Set(linesOf(notes.acknowledged))
  const toldRefused = new Set(linesOf(notes.refused))
  const seen: Inspection = {
    acknowledged: acknowledgedIds.size,
    toldRefused: toldRefused.size,
    jobs: 0,
    attempts: 0,
    reclaimed: 0,
    refused: 0,
    problems: [],
  }
  for await (const [row, events] of allJobs(store)) {
    acknowledgedIds.delete(row.id)
    for (const { kind, attempt } of events) if (kind === 'lost') toldRefused.delete(`${row.id} ${attempt}`)
    seen.jobs++
    seen.attempts += row.attempt
    seen.reclaimed += count(events, 'reclaimed')
    seen.refused += count(events, 'lost')
    seen.problems.push(...jobProblems(row, events).map((problem) => `${row.id}: ${problem}`))
  }
  for (const told of toldRefused) seen.problems.push(`${told}: its close was refused, and its history does not say so`)
  for (const id of acknowledgedIds) seen.problems.push(`${id}: was acknowledged and is lost`)
  return seen
}

/** The whole lines of a file; what follows the last line end was cut off by a kill. */
function linesOf(path: string): string[] {
  if (!existsSync(path)) return []
  return readFileSync(path, 'utf8')
    .split('\n')
    .slice(0, -1)
    .filter((line) => ID_LINE.test(line))
}

async function* allJobs(store: Store): AsyncGenerator<[Row, readonly JobEvent[]]> {
  let beforeKey = Number.MAX_SAFE_INTEGER
  for (;;) {
    const page = await store.jobs({ beforeKey, limit: PAGE })
    const histories = await Promise.all(page.map(({ id }) => store.events({ id })))
    for (const [i, row] of page.entries()) yield [row, histories[i] as readonly JobEvent[]]
    const last = page.at(-1)
    if (last === undefined) return
    beforeKey = last.key
  }
}

function jobProblems(row: Row, events: readonly JobEvent[]): string[] {
  const problems: string[] = []
  if (row.status !== 'complete') problems.push(`is ${row.status}`)
  if (count(events, 'complete') !== 1) problems.push(`was completed ${count(events, 'complete')} times`)
  // The handler answers with the number of its attempt.
  if (row.result !== String(row.attempt)) problems.push(`has the result ${row.result} of another attempt`)
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

export function integrityProblems(file: string): string[] {
  const database = new DatabaseSync(file)
  const answers = database.prepare('PRAGMA integrity_check').all() as { integrity_check: string }[]
  database.close()
  return answers.map((answer) => answer.integrity_check).filter((answer) => answer !== 'ok')
}
