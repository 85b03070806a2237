import type { Readable } from 'node:stream'
import { RedressError } from '../core/errors.ts'
import { optionNames, refuseUnknownOptions } from '../core/text/options.ts'

/** What can be stored. A stream is read once, as fast as the store takes it, and never held in memory as a whole. */
export type ArtifactBody = Readable | AsyncIterable<Uint8Array> | Uint8Array | string

/**
 * Where jobs keep files: sources, results, manifests. Keys look like paths (`results/2026/report.xml`); their rules are
 * in key.ts. Each sentence below is a promise that every driver keeps.
 *
 * - A put is all or nothing: the artifact appears whole when the put is answered, and a failed put leaves nothing.
 * - Of several puts to one key the last to complete wins; no reader ever sees a mixture of two.
 * - An answered put survives a crash of this process and, for a folder, of the machine.
 * - A source that fails, and a signal that aborts, reject the put with their own error: it is not the store's failure.
 */
export interface ArtifactStore {
  put(key: string, body: ArtifactBody, options?: PutOptions): Promise<StoredArtifact>
  /** The body must be read to its end or destroyed: it holds a file or a connection open. */
  get(key: string, options?: GetOptions): Promise<ArtifactContent>
  head(key: string, options?: SignalOption): Promise<ArtifactHead>
  /** What is not there counts as removed. */
  remove(key: string, options?: SignalOption): Promise<void>
  /** In the order of the keys, a bounded page at a time. */
  list(options?: ListOptions): Promise<ArtifactPage>
  /** Reads the whole artifact and compares it with the checksum kept when it was stored. */
  verify(key: string, options?: SignalOption): Promise<Verification>
  /** One bounded step of retention: call it again with `after: next` until `next` is null. */
  removeOlderThan(options: RetentionOptions): Promise<RetentionStep>
  /** Clears what writers that died in the middle of a put left behind; nothing of it was ever visible. */
  sweep(options?: SweepOptions): Promise<{ removed: number }>
  usage(): Promise<Usage>
  /** 'soft': time to clean up. 'hard': puts are refused with STORAGE_FULL. */
  pressure(): Promise<Pressure>
  close(): Promise<void>
}

export interface SignalOption {
  signal?: AbortSignal | undefined
}

export interface PutOptions extends SignalOption {
  /** ARTIFACT_TOO_LARGE as soon as one byte more arrives. */
  bytesMax?: number | undefined
  contentType?: string | undefined
  /** The encoding that the bytes already have ('gzip'). They are stored and read unchanged. */
  contentEncoding?: string | undefined
  /** ARTIFACT_EXISTS instead of replacing. Of several such puts at once, one succeeds. */
  ifAbsent?: boolean | undefined
  /** What the bytes must hash to, in hex: ARTIFACT_MISMATCH otherwise. */
  sha256?: string | undefined
  /** A stream is destroyed when the put fails, unless this is set: the request of a refused upload still needs an answer. */
  keepBodyOpen?: boolean | undefined
}

export interface GetOptions extends SignalOption {
  /** Counted from 0, `end` included, as in HTTP. An `end` past the last byte means the last byte. */
  range?: { start: number; end?: number | undefined } | undefined
  /** The body fails with ARTIFACT_CORRUPT at its end if it is not what was stored. Not with a range. */
  verify?: boolean | undefined
}

/** The answer to a finished upload. */
export interface StoredArtifact {
  key: string
  bytes: number
  /** In hex. */
  sha256: string
}

/** An artifact without its content. */
export interface ArtifactHead {
  key: string
  /** Of the whole artifact. */
  bytes: number
  /** In hex. Null where the store does not know it: see the guide on artifacts. */
  sha256: string | null
  contentType: string | null
  /** The encoding given with the put: the bytes are still encoded. */
  contentEncoding: string | null
  modifiedAtMs: number
}

/** An artifact that was opened for reading. */
export interface ArtifactContent extends ArtifactHead {
  body: Readable
  /** What `body` gives: the bytes from `start` to `end`, both included. Null when it is the whole artifact. */
  range: { start: number; end: number } | null
}

export interface ListOptions extends SignalOption {
  /** The beginning of the keys wanted; it need not end at a slash. */
  prefix?: string | undefined
  /** Only keys that come after this one. */
  after?: string | undefined
  limit?: number | undefined
}

export interface ListedArtifact {
  key: string
  bytes: number
  modifiedAtMs: number
}

/** One page of a list of artifacts. */
export interface ArtifactPage {
  artifacts: ListedArtifact[]
  /** Give it as `after` for the next page; null when this was the last. A page may be short and not the last. */
  next: string | null
}

export interface RetentionOptions extends ListOptions {
  /** Removes what was stored longer ago than this. */
  olderThanMs: number
  /** Asked before each removal: an artifact that a job still needs stays. */
  keep?: ((artifact: ListedArtifact) => boolean | Promise<boolean>) | undefined
}

export interface RetentionStep {
  removed: number
  bytesRemoved: number
  next: string | null
}

export interface SweepOptions extends SignalOption {
  /** An hour since the last write in a folder; a day since the beginning of an upload in S3, which tells no more. */
  olderThanMs?: number | undefined
}

const SIGNAL = optionNames<SignalOption>({ signal: true })
const OPTIONS = {
  put: optionNames<PutOptions>({
    signal: true,
    bytesMax: true,
    contentType: true,
    contentEncoding: true,
    ifAbsent: true,
    sha256: true,
    keepBodyOpen: true,
  }),
  get: optionNames<GetOptions>({ signal: true, range: true, verify: true }),
  head: SIGNAL,
  remove: SIGNAL,
  verify: SIGNAL,
  list: optionNames<ListOptions>({ signal: true, prefix: true, after: true, limit: true }),
  removeOlderThan: optionNames<RetentionOptions>({
    signal: true,
    prefix: true,
    after: true,
    limit: true,
    olderThanMs: true,
    keep: true,
  }),
  sweep: optionNames<SweepOptions>({ signal: true, olderThanMs: true }),
}

/** Every driver calls it first. */
export function checkOptionNames(call: keyof typeof OPTIONS, options: unknown): void {
  refuseUnknownOptions(`${call}() of an artifact store`, options, OPTIONS[call])
}

/** 'unknown': there is no checksum to compare with, for example because another program put the file there. */
export interface Verification {
  verdict: 'intact' | 'corrupt' | 'unknown'
  bytes: number
  /** Of the bytes that are there now. */
  sha256: string
}

export type Pressure = 'ok' | 'soft' | 'hard'

/** Null where the store does not say: an object store has no end that can be asked for. */
export interface Usage {
  bytesUsed: number | null
  bytesFree: number | null
  bytesTotal: number | null
}

export function artifactNotFound(key: string, cause?: unknown): RedressError {
  return new RedressError('ARTIFACT_NOT_FOUND', `There is no artifact at ${key}.`, { cause })
}

export function artifactExists(key: string, cause?: unknown): RedressError {
  return new RedressError('ARTIFACT_EXISTS', `There is an artifact at ${key} already.`, { cause })
}

export function artifactCorrupt(key: string): RedressError {
  return new RedressError('ARTIFACT_CORRUPT', `${key} is not what was stored: its checksum differs.`)
}

export function rangeInvalid(key: string, start: number, end: number | undefined): RedressError {
  return new RedressError('ARTIFACT_RANGE_INVALID', `${key} has no bytes from ${start} to ${end ?? 'its end'}.`)
}
