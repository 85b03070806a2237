import type { App } from '../app.ts'
import type { ImportAnswer, ImportJob } from './import-jobs.ts'
import { type Source, type SourceJob, type SourceSchedule, SYSTEMS } from './source.ts'

/** From 'queue/name' or 'queue' to a job type. */
export type TypeMap = ReadonlyMap<string, string>

export interface ImportOptions {
  states: readonly string[]
  map: TypeMap
  isDryRun: boolean
  onProgress?: (done: number) => void
}

/** Jobs of one queue, name and state, and what became of them: source = imported + already + skipped. */
interface ImportCount {
  queue: string
  name: string | null
  state: string
  type: string | null
  source: number
  imported: number
  already: number
  skipped: number
}

/** A reason why jobs were not imported, or were imported with less than they had. */
export interface ImportProblem {
  queue: string
  name: string | null
  state: string
  count: number
  isSkipped: boolean
  /** Nothing must be done about it. */
  isExpected: boolean
  why: string
  /** Some of the ids. */
  jobs: string[]
}

export interface ImportReport {
  counts: ImportCount[]
  problems: ImportProblem[]
  schedules: SourceSchedule[]
  totals: { source: number; imported: number; already: number; skipped: number }
  /** Every job that should be imported is in the store. Jobs that are skipped for an expected reason do not matter. */
  isComplete: boolean
}

const EXAMPLES_MAX = 3

/** Imports the jobs of another system, in chunks. An interrupted import can be run again: it adds only what is missing. */
export async function runImport(
  app: App,
  source: Source,
  { states, map, isDryRun, onProgress }: ImportOptions,
): Promise<ImportReport> {
  const types = new Set([...app.types, ...(await (await app.store()).types()).map(({ name }) => name)])
  const typeOf = (queue: string, name: string | null): string | null => mappedType(queue, name, map, types)
  const counts = new Map<string, ImportCount>()
  const problems = new Map<string, ImportProblem>()
  const countOf = (queue: string, name: string | null, state: string): ImportCount => {
    const key = JSON.stringify([queue, name, state])
    const found = counts.get(key)
    if (found !== undefined) return found
    const added = { queue, name, state, type: typeOf(queue, name), source: 0, imported: 0, already: 0, skipped: 0 }
    counts.set(key, added)
    return added
  }
  const report = (
    { queue, name, state, id }: SourceJob,
    why: string,
    { isSkipped, isExpected }: Pick<ImportProblem, 'isSkipped' | 'isExpected'>,
  ) => {
    const key = JSON.stringify([queue, name, state, why])
    const problem = problems.get(key) ?? { queue, name, state, count: 0, isSkipped, isExpected, why, jobs: [] }
    problem.count++
    if (problem.jobs.length < EXAMPLES_MAX) problem.jobs.push(id)
    problems.set(key, problem)
  }

  let done = 0
  for await (const chunk of source.jobs(states)) {
    const wanted: { job: SourceJob; count: ImportCount; asked: ImportJob }[] = []
    for (const job of chunk) {
      const count = countOf(job.queue, job.name, job.state)
      count.source++
      const type = count.type
      const left = job.left ?? (type === null ? unknownType(job) : null)
      if (left !== null) {
        count.skipped++
        report(job, left.why, { isSkipped: true, isExpected: left.isExpected })
      } else wanted.push({ job, count, asked: toImport(source, job, type as string) })
    }
    const answers = await app.importJobs(
      wanted.map(({ asked }) => asked),
      { dryRun: isDryRun },
    )
    for (const [i, { job, count }] of wanted.entries()) tally(job, count, answers[i] as ImportAnswer, report)
    done += chunk.length
    onProgress?.(done)
  }
  for (const { queue, state, count, why, isExpected } of await source.left(states)) {
    const of = countOf(queue, null, state)
    of.source += count
    of.skipped += count
    problems.set(JSON.stringify([queue, null, state, why]), {
      ...{ queue, name: null, state, count, isSkipped: true, isExpected, why, jobs: [] },
    })
  }
  return reportOf([...counts.values()], [...problems.values()], await source.schedules())
}

function reportOf(counts: ImportCount[], problems: ImportProblem[], schedules: SourceSchedule[]): ImportReport {
  const sum = (of: 'source' | 'imported' | 'already' | 'skipped') =>
    counts.reduce((total, count) => total + count[of], 0)
  return {
    counts,
    problems,
    schedules,
    totals: { source: sum('source'), imported: sum('imported'), already: sum('already'), skipped: sum('skipped') },
    isComplete: problems.every(({ isSkipped, isExpected }) => !isSkipped || isExpected),
  }
}

function tally(
  job: SourceJob,
  count: ImportCount,
  answer: ImportAnswer,
  report: (job: SourceJob, why: string, kind: Pick<ImportProblem, 'isSkipped' | 'isExpected'>) => void,
): void {
  switch (answer.kind) {
    case 'already':
      count.already++
      return
    case 'refused':
      count.skipped++
      report(job, `${answer.code}: ${answer.message}`, { isSkipped: true, isExpected: false })
      return
    case 'imported': {
      count.imported++
      const kept = { isSkipped: false, isExpected: false }
      if (answer.isKeyTaken) {
        report(job, 'another job holds its dedupe key, so it is imported without the key', kept)
      }
      if (answer.inputProblem !== null) {
        report(job, `imported as failed; a retry needs another input: ${answer.inputProblem}`, kept)
      }
      if (job.note !== null) report(job, job.note, kept)
    }
  }
}

/** An entry of the map wins: that of the name, then that of the queue. Else a declared type of the same name is taken. */
function mappedType(queue: string, name: string | null, map: TypeMap, types: ReadonlySet<string>): string | null {
  const named = (name === null ? undefined : map.get(`${queue}/${name}`)) ?? map.get(queue)
  if (named !== undefined) return named
  const likely = name === null ? [queue] : [`${queue}.${name}`, name, queue]
  return likely.find((type) => types.has(type)) ?? null
}

function unknownType({ queue, name }: SourceJob): { why: string; isExpected: boolean } {
  const which = name === null ? queue : `${queue}/${name}`
  return { why: `no job type is declared for it: declare one, or add --map '${which}=TYPE'`, isExpected: false }
}

function toImport(source: Source, job: SourceJob, type: string): ImportJob {
  const { failure } = job
  return {
    type,
    input: job.input,
    system: SYSTEMS[source.system],
    source: source.partsOf(job),
    sourceText: `queue ${job.queue}, job ${job.id}`,
    priority: job.priority,
    ...(job.dueAtMs !== null && { runAt: new Date(job.dueAtMs) }),
    ...(job.dedupeKey !== null && { dedupe: job.dedupeKey }),
    createdAt: new Date(job.createdAtMs),
    attemptsMade: job.attemptsMade,
    ...(failure !== null && {
      failure: { error: failure.error, ...(failure.atMs !== null && { at: new Date(failure.atMs) }) },
    }),
  }
}
