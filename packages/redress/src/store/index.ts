import type { SideRows } from './postgres/connection/side-rows.ts'

/** What a store does, for drivers of your own, and an app's own rows beside the store's: `redress/store`. */
export type { JobEvent } from '../core/job/events.ts'
export type { FeedEvent, JobFeedEvent, SubjectFeedEvent } from './contract/feed.ts'
export type { By, JobRow, Lease, NewJob, Store, Submitted } from './contract/store.ts'
export type { AsyncExecutor, SyncExecutor } from './contract/transactional.ts'
export type {
  Ask as PostgresQuery,
  SideAnswer as PostgresAnswer,
  SideRows as PostgresRows,
  SideValue as PostgresValue,
} from './postgres/connection/side-rows.ts'

/**
 * An app's own rows in the PostgreSQL database of its store, in a separate schema. Like the store's connections,
 * these follow the primary.
 */
export async function openPostgresRows(options: { url: string; schema: string }): Promise<SideRows> {
  // Loaded where it is used: a program on SQLite need not read PostgreSQL's client.
  const { openSideRows } = await import('./postgres/connection/side-rows.ts')
  return openSideRows(options)
}
