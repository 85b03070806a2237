import { useEffect, useReducer, useRef } from 'preact/hooks'
import type { JobView } from '../../../../src/core/views/job.ts'
import type { InputOf, OutputOf } from '../../../../src/operations/table.ts'
import { onChanges } from '../../api/live.ts'
import { perform, type Refused } from '../../api/perform.ts'
import { about, useQuery } from '../../api/query.ts'
import { merge } from './merge.ts'

export const PAGE_SIZE = 50

export interface JobList {
  /** null until they are known. */
  rows: readonly JobView[] | null
  nextCursor: string | null
  problem: Refused | null
  /** How many more there are by now; PAGE_SIZE stands for more, too. */
  newCount: number
  /** Brings them in. */
  takeNew(): void
}

interface Held {
  key: string
  /** When somebody came to this list. What was read before is shown at once, and replaced by the first new answer. */
  sinceMs: number
  isSettled: boolean
  rows: JobView[] | null
  nextCursor: string | null
  newCount: number
  missing: JobView[]
  answer: OutputOf<'jobs.list'> | null
}

/** Of those that have left the list, so many are asked for at once. */
const ASKED_MAX = 20

const isUnfinished = ({ status }: JobView): boolean => status === 'queued' || status === 'processing'

/** A page of jobs that stays as it is while its jobs change: see `merge`. `null` asks for nothing. */
export function useJobList(asked: Omit<InputOf<'jobs.list'>, 'limit'> | null): JobList {
  const input = asked === null ? null : { ...asked, limit: PAGE_SIZE }
  const query = useQuery('jobs.list', input, { follows: about('job') })
  const [, redraw] = useReducer<number, void>((n) => n + 1, 0)
  const held = useRef<Held | null>(null)
  const key = JSON.stringify(input)
  if (held.current?.key !== key) {
    const empty = { rows: null, nextCursor: null, newCount: 0, missing: [], answer: null }
    held.current = { key, sinceMs: Date.now(), isSettled: false, ...empty }
  }
  const list = held.current as Held
  const { data } = query
  if (data !== null && data !== list.answer) {
    list.answer = data
    if (list.isSettled && list.rows !== null) Object.assign(list, merge(list.rows, data.jobs))
    else {
      Object.assign(list, taken(data))
      list.isSettled = (query.atMs ?? 0) >= list.sinceMs
    }
  }

  const touched = useRef(new Set<string>())
  useEffect(() => onChanges(({ subjects }) => subjects.forEach((subject) => void touched.current.add(subject))), [])
  const vanished = useRef(new Set<string>())
  useEffect(() => {
    const missing = list.missing.filter(
      (job) => isUnfinished(job) || !vanished.current.has(job.id) || touched.current.has(`job:${job.id}`),
    )
    vanished.current = new Set(list.missing.map(({ id }) => id))
    touched.current.clear()
    void showAgain(list, missing.slice(0, ASKED_MAX)).then(redraw)
  }, [data])

  return {
    rows: list.rows,
    nextCursor: list.nextCursor,
    problem: query.problem,
    newCount: list.newCount,
    takeNew: () => {
      if (list.answer === null) return
      Object.assign(list, taken(list.answer))
      redraw()
    },
  }
}

/** An answer as it is. */
const taken = ({ jobs, nextCursor }: OutputOf<'jobs.list'>) => ({ rows: jobs, nextCursor, newCount: 0, missing: [] })

async function showAgain(list: Held, missing: readonly JobView[]): Promise<void> {
  const shown = await Promise.all(missing.map(({ id }) => perform('jobs.show', { id }).catch(() => null)))
  const now = new Map(shown.flatMap((job) => (job === null ? [] : [[job.id, job]])))
  list.rows = list.rows?.map((job) => now.get(job.id) ?? job) ?? null
}
