import type { Readable } from 'node:stream'
import type { Resource } from './requests/manifest.ts'
import type { ProxyState } from './transfer/proxies.ts'

/** A downloaded resource that is not stored yet. */
interface Spooled {
  readonly sha256: string
  readonly bytes: number
  readonly contentType: string | null
  /** Set when the origin encoded what it was asked to send plain: the bytes are kept as they were sent. */
  readonly contentEncoding: string | null
  open(): Readable
  /** Releases memory and file; may be called more than once. */
  remove(): Promise<void>
}

interface Stored {
  key: string
  bytes: number
  sha256: string
}

/** How bytes get from an origin into the storage: each call is one try, and says what went wrong as a FetchFailure. */
export interface Transfer {
  /** `avoidProxy` is what the try before went through: another one is taken, where there is one (F8). */
  download(
    task: Pick<Resource, 'url' | 'headers' | 'sha256'>,
    options: { signal: AbortSignal; avoidProxy: string | null },
  ): Promise<Spooled>
  upload(spooled: Spooled, options: { key: string; signal: AbortSignal }): Promise<Stored>
  /** The state of each proxy; absent if there are none. */
  proxies?(): readonly ProxyState[]
  close(): Promise<void>
}
