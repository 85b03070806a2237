import { RedressError } from '../../core/errors.ts'
import {
  COPIED_TABLES,
  type CopiedTable,
  type CopySource,
  type CopyTarget,
  type CopyWriter,
  filledOf,
  type TableCount,
} from '../contract/copying.ts'

/** An idle worker reports every ten seconds; after three missed reports it counts as gone. */
const WORKER_SEEN_MS = 30_000

export interface CopyOptions {
  /** Copies although workers run on the source: later changes there are not in the copy. */
  isInUseAllowed: boolean
  onProgress?: (progress: CopyProgress) => void
}

interface CopyProgress {
  table: string
  rows: number
  total: number
}

/** How many rows of one table were copied. */
export interface CopiedCount {
  table: string
  source: number
  /** null after a dry run. */
  target: number | null
}

export interface Copied {
  tables: CopiedCount[]
  /** Every table has the same number of rows on both sides. If not, nothing is left on the target. */
  isWhole: boolean
  /** Texts with a NUL character, which PostgreSQL cannot hold: it was replaced by U+FFFD. */
  textsChanged: number
  /** Events that were added to the source meanwhile: they are not in the copy. */
  eventsMissed: number
  /** Workers that ran on the source. */
  workers: string[]
}

/** Checks all obstacles and returns what would be copied. Changes nothing. */
export async function planCopy(source: CopySource, target: CopyTarget, options: CopyOptions): Promise<Copied> {
  const workers = await refuseObstacles(source, target, options)
  const counts = await countsOf(source)
  const tables = counts.map(({ table, rows }) => ({ table, source: rows, target: null }))
  return { tables, isWhole: true, textsChanged: 0, eventsMissed: 0, workers }
}

/**
 * Copies every table with its keys and numbers, in one transaction of the target. An interrupted copy leaves an empty store,
 * never a part of one.
 */
export async function copyStore(source: CopySource, target: CopyTarget, options: CopyOptions): Promise<Copied> {
  const workers = await refuseObstacles(source, target, options)
  const counts = await countsOf(source)
  let textsChanged = 0
  let tables: CopiedCount[] = []
  let eventsMissed = 0
  const isWhole = () => tables.every((table) => table.source === table.target)
  await target.fill(async (writer) => {
    // Checked again under the locks.
    refuseFilled(target.place, await filledOf(writer.countOf))
    for (const [i, table] of COPIED_TABLES.entries()) {
      const total = (counts[i] as TableCount).rows
      textsChanged += await copyTable(table, source, writer, (rows) =>
        options.onProgress?.({ table: table.name, rows, total }),
      )
      if (table.numbered !== undefined) await writer.numberBeyond(table, await source.highestOf(table))
    }
    tables = []
    for (const [i, table] of COPIED_TABLES.entries()) {
      tables.push({
        table: table.name,
        source: (counts[i] as TableCount).rows,
        target: await writer.countOf(table),
      })
    }
    eventsMissed = await source.eventsMissed()
    if (eventsMissed > 0 && !options.isInUseAllowed) {
      throw new RedressError(
        'STORE_IN_USE',
        `${source.place} was written to while it was copied (${eventsMissed} new events); nothing was copied.`,
      )
    }
    return isWhole()
  })
  return { tables, isWhole: isWhole(), textsChanged, eventsMissed, workers }
}

async function copyTable(
  table: CopiedTable,
  source: CopySource,
  writer: CopyWriter,
  onRows: (rows: number) => void,
): Promise<number> {
  const columns = await source.columnsOf(table)
  const known = await writer.columnsOf(table)
  const unknown = columns.filter((column) => !known.includes(column))
  if (unknown.length > 0) {
    throw new RedressError('STORE_FAILED', `The target's table ${table.name} has no ${unknown.join(', ')}.`, {
      action: 'Both stores must be of one version: use the same Redress for both.',
    })
  }
  let rows = 0
  let changed = 0
  // While one chunk is being written, the next one is read.
  let writing = Promise.resolve(0)
  onRows(0)
  try {
    for await (const chunk of source.chunksOf(table, columns)) {
      changed += await writing
      writing = writer.add(table, columns, chunk)
      // Awaited in the next turn; until then a refusal must not count as unhandled.
      writing.catch(() => undefined)
      rows += chunk.length
      onRows(rows)
    }
  } finally {
    await writing.catch(() => undefined)
  }
  return changed + (await writing)
}

async function refuseObstacles(source: CopySource, target: CopyTarget, options: CopyOptions): Promise<string[]> {
  refuseFilled(target.place, await target.filled())
  const workers = await source.workersSeen(WORKER_SEEN_MS)
  if (workers.length > 0 && !options.isInUseAllowed) {
    const shown =
      workers.length > 3 ? `${workers.slice(0, 3).join(', ')} and ${workers.length - 3} more` : workers.join(', ')
    throw new RedressError('STORE_IN_USE', `Workers are at work on ${source.place}: ${shown}.`)
  }
  return workers
}

function refuseFilled(place: string, filled: readonly TableCount[]): void {
  if (filled.length === 0) return
  const shown = filled.map(({ table, rows }) => `${table} (${rows})`).join(', ')
  throw new RedressError('STORE_NOT_EMPTY', `${place} is not empty: ${shown}.`)
}

async function countsOf(source: CopySource): Promise<TableCount[]> {
  const counts: TableCount[] = []
  for (const table of COPIED_TABLES) counts.push({ table: table.name, rows: await source.countOf(table) })
  return counts
}
