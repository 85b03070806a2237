import type { NewNotice, NoticeContent } from '../../core/notice/notice.ts'
import type { By } from './store.ts'

/**
 * The outbox. What is to be told of a job is written in the transaction that changes the job, so that neither exists
 * without the other; from here it becomes jobs, one for each channel.
 */
export interface NoticeStore {
  /** Notices that come with no change of a job. Those of jobs travel with the close, reclaim, act or submission. */
  addNotices(params: { notices: readonly NewNotice[]; by?: By & { act: string } }): Promise<AddedNotice[]>
  /** The newest first. */
  notices(params: NoticeFilter): Promise<StoredNotice[]>
  /** Makes a job of each notice that waits for one of these channels; how many were made. */
  relayNotices(params: { channels: readonly string[]; limit: number }): Promise<number>
  /** Removes what was relayed longer ago than this, unless repeats are still counted on it. */
  forgetNotices(params: { keptMs: number; limit: number }): Promise<number>
}

export interface AddedNotice {
  seq: number
  /** False when it was only counted on this one. */
  isNew: boolean
}

export interface NoticeFilter {
  /** Only those that wait for a channel. */
  isWaiting?: boolean
  /** Older than this one. */
  beforeSeq?: number
  limit: number
}

export interface StoredNotice {
  seq: number
  atMs: number
  kind: string
  subject: string
  cause: string
  channels: string[]
  /** The channels that no process has taken it for yet. */
  waiting: string[]
  /** Of the same cause, and counted here instead of told. */
  repeats: number
  lastAtMs: number
  /** Repeats are counted until then. */
  untilMs: number
  /** Repeats of the notice before, told with this one; and when that one was told. */
  earlier: number
  earlierAtMs: number | null
  relayedAtMs: number | null
  content: NoticeContent
}
