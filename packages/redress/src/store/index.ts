import { refuseUnknownOptions } from '../core/text/options.ts'
import type { PostgresRows } from './postgres/connection/side-rows.ts'

/** What a store does, for drivers of your own, and an app's own rows beside the store's: `redress/store`. */
export type { JobEvent } from '../core/job/events.ts'
export type { FeedEvent, JobFeedEvent, SubjectFeedEvent } from './contract/feed.ts'
export type { ActorAndReason, JobRow, Lease, NewJob, Store, Submitted } from './contract/store.ts'
export type { AsyncExecutor, SyncExecutor } from './contract/transactional.ts'
export type { PostgresAnswer, PostgresQuery, PostgresRows, PostgresValue } from './postgres/connection/side-rows.ts'

/**
 * An app's own rows in the PostgreSQL database of its store, in a separate schema. Like the store's connections,
 * these follow the primary.
 */
export async function openPostgresRows(options: { url: string; schema: string }): Promise<PostgresRows> {
  refuseUnknownOptions('openPostgresRows()', options, ['url', 'schema'])
  // Loaded at first use: a program on SQLite must not load the client of PostgreSQL.
  const driver = await import('./postgres/connection/side-rows.ts')
  return driver.openPostgresRows(options)
}
