import type { NewNotice, NoticeContent } from '../../core/notice/notice.ts'
import type { ActorAndReason } from './store.ts'

/**
 * The outbox. Notices of a job are written in the transaction that changes the job, so neither exists without the other. Each
 * notice becomes one delivery job per channel.
 */
export interface NoticeStore {
  /** Adds notices without a change of a job. The notices of a job come with its close, reclaim, act or submission. */
  addNotices(params: { notices: readonly NewNotice[]; by?: ActorAndReason & { act: string } }): Promise<AddedNotice[]>
  /** The newest first. */
  notices(params: NoticeFilter): Promise<StoredNotice[]>
  /** Makes a job of each notice that waits for one of these channels. Returns how many. */
  relayNotices(params: { channels: readonly string[]; limit: number }): Promise<number>
  /** Removes notices that were relayed longer ago, unless repeats are still counted on them. */
  forgetNotices(params: { keptMs: number; limit: number }): Promise<number>
}

export interface AddedNotice {
  seq: number
  /** False if it was counted as a repeat of this one. */
  isNew: boolean
}

interface NoticeFilter {
  /** Only notices that wait for a channel. */
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
  /** The channels that have no delivery job for it yet. */
  waiting: string[]
  /** Notices of the same cause that were counted here instead of sent. */
  repeats: number
  lastAtMs: number
  /** Repeats are counted until then. */
  untilMs: number
  /** Repeats of the notice before this one, and when that one was added. */
  earlier: number
  earlierAtMs: number | null
  relayedAtMs: number | null
  content: NoticeContent
}
