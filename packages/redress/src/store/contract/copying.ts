/** A table, as `copy` needs to know it. Every driver has the same tables. */
export interface CopiedTable {
  name: string
  /** Its key: rows are read in this order. */
  order: readonly string[]
  /** The column with numbers that the database gives, each at most once. */
  numbered?: string
  /** The row of `cursors` that holds a number of this table, perhaps of a removed row. */
  remembered?: string
}

export const COPIED_TABLES: readonly CopiedTable[] = [
  { name: 'job_types', order: ['key'], numbered: 'key' },
  { name: 'workers', order: ['key'], numbered: 'key' },
  { name: 'job_specs', order: ['key'], numbered: 'key' },
  { name: 'jobs', order: ['key'] },
  { name: 'submit_keys', order: ['type', 'name'] },
  { name: 'attempt_reports', order: ['job', 'attempt'] },
  { name: 'events', order: ['seq'], numbered: 'seq', remembered: 'removed_events' },
  { name: 'failures', order: ['seq'], numbered: 'seq', remembered: 'failure_groups' },
  { name: 'dead_letters', order: ['offset'], numbered: 'offset' },
  { name: 'batches', order: ['key'], numbered: 'key' },
  { name: 'breakers', order: ['name'] },
  { name: 'breaker_calls', order: ['breaker', 'at'] },
  { name: 'queues', order: ['name'] },
  { name: 'meters', order: ['name'] },
  { name: 'schedules', order: ['name'] },
  { name: 'notices', order: ['seq'], numbered: 'seq' },
  { name: 'notice_waits', order: ['channel', 'notice'] },
  { name: 'failure_groups', order: ['fingerprint'] },
  { name: 'cursors', order: ['name'] },
  { name: 'replays', order: ['key'], numbered: 'key' },
  { name: 'replay_items', order: ['replay', 'position'] },
  { name: 'activity', order: ['minute', 'type', 'what'] },
  { name: 'audit', order: ['seq'], numbered: 'seq' },
  { name: 'accounts', order: ['key'], numbered: 'key' },
  { name: 'credentials', order: ['key'], numbered: 'key' },
]

export type CopiedRow = Record<string, string | number | null>

/** The most that is held in memory at once. */
export const ROWS_PER_CHUNK = 1000
export const CHARS_PER_CHUNK = 4_000_000

/** A snapshot of a store. */
export interface CopySource {
  /** For messages, without a password. */
  place: string
  /** The ids of the workers that were seen within this time and have not stopped. */
  workersSeen(withinMs: number): Promise<string[]>
  columnsOf(table: CopiedTable): Promise<string[]>
  countOf(table: CopiedTable): Promise<number>
  /** In bounded chunks, each read when it is needed. */
  chunksOf(table: CopiedTable, columns: readonly string[]): AsyncIterable<CopiedRow[]>
  /** The highest number that was ever given in this table, also to a removed row; 0 for none. */
  highestOf(table: CopiedTable): Promise<number>
  /** The minimum number of events that were added after the snapshot, or are being added now. */
  eventsMissed(): Promise<number>
  stop(): Promise<void>
}

export interface CopyTarget {
  place: string
  /** The tables that hold rows. Changes nothing. */
  filled(): Promise<TableCount[]>
  /**
   * Creates missing tables and runs one transaction that locks them against other writers. It is committed if `run` returns
   * true. Otherwise, or if it throws or the process dies, nothing is stored.
   */
  fill(run: (writer: CopyWriter) => Promise<boolean>): Promise<void>
  stop(): Promise<void>
}

export interface CopyWriter {
  columnsOf(table: CopiedTable): Promise<string[]>
  countOf(table: CopiedTable): Promise<number>
  /** Returns how many texts were changed because the database cannot hold them. */
  add(table: CopiedTable, columns: readonly string[], rows: readonly CopiedRow[]): Promise<number>
  /** The database gives only higher numbers from now on. */
  numberBeyond(table: CopiedTable, highest: number): Promise<void>
}

export interface TableCount {
  table: string
  rows: number
}

/** The tables that hold rows. */
export async function filledOf(countOf: CopyWriter['countOf']): Promise<TableCount[]> {
  const counts: TableCount[] = []
  for (const table of COPIED_TABLES) counts.push({ table: table.name, rows: await countOf(table) })
  return counts.filter(({ rows }) => rows > 0)
}
