import { createHash } from 'node:crypto'
import type { Readable } from 'node:stream'
import { type OutboundResponse, outboundRequest } from 'redress/outbound'
import { FetchFailure } from '../failures/failure.ts'
import type { ConnectionLimits, Connections } from './connections.ts'
import {
  checkStatus,
  type DownloadFacts,
  downloadFailure,
  isOfProxy,
  shownUrl,
  wasReached,
} from './download-failure.ts'
import type { Proxies, ProxyUse } from './proxies.ts'
import { Spool, type SpoolOptions } from './spool.ts'

/** One resource to be fetched. */
export interface DownloadTask {
  url: string
  /** Checked before with `headerProblem`. */
  headers?: Readonly<Record<string, string>> | undefined
  /** The expected SHA-256 in hex, if known. */
  sha256?: string | undefined
}

export interface DownloadLimits extends ConnectionLimits {
  /** For everything: redirects, headers, and the body to its end. */
  wholeMs: number
  bytesMax: number
  /** 5 when left out. */
  redirectsMax?: number
}

export interface DownloadOptions {
  connections: Connections
  /** Null: origins are asked directly. */
  proxies: Proxies | null
  /** The proxy of the try before, which is not taken again while there is another (F8). */
  avoidProxy: string | null
  limits: DownloadLimits
  spool: SpoolOptions
  userAgent?: string
  nowMs(): number
  signal: AbortSignal
}

/** A resource that has arrived whole. It holds memory or a file until it is removed. */
export interface Spooled {
  sha256: string
  bytes: number
  contentType: string | null
  /** Set when the origin encoded what it was asked to send plain: the bytes are kept as they were sent. */
  contentEncoding: string | null
  status: number
  /** "pool#n", null when the origin was asked directly. */
  proxy: string | null
  redirects: number
  /** Opens the content from the beginning; may be called repeatedly. */
  open(): Readable
  remove(): Promise<void>
}

const USER_AGENT = 'fetchbox'

/**
 * Fetches a resource once. Throws a FetchFailure, or the reason of the signal. The bytes are stored as sent: the
 * request asks for plain content, and encoded content is not decoded. So the checksum is that of the sent bytes, and
 * a small answer cannot grow.
 */
export async function download(task: DownloadTask, options: DownloadOptions): Promise<Spooled> {
  const { connections, proxies, avoidProxy, limits, nowMs, signal } = options
  signal.throwIfAborted()
  const use = (await proxies?.next(avoidProxy, signal)) ?? null
  const way: DownloadFacts = { url: shownUrl(task.url), proxy: use?.name ?? null, limits, nowMs: nowMs() }
  try {
    const answer = await ask(task, connections, use, options)
    use?.worked()
    way.status = answer.status
    way.redirects = answer.redirects
    try {
      return await receive(answer, task, way, options)
    } catch (error) {
      // The unread rest is not needed, and the connection cannot be reused.
      answer.body.on('error', () => undefined).destroy()
      throw error
    }
  } catch (error) {
    blame(use, error, task.url)
    if (signal.aborted) throw signal.reason
    throw error instanceof FetchFailure ? error : downloadFailure(error, way)
  } finally {
    use?.undecided()
  }
}

function ask(
  { url, headers }: DownloadTask,
  connections: Connections,
  use: ProxyUse | null,
  { limits, signal, userAgent = USER_AGENT }: DownloadOptions,
): Promise<OutboundResponse> {
  return outboundRequest(url, {
    guard: connections.guard,
    agent: connections.by(use?.url ?? null),
    // Names are the same however they are written, and the last one counts: a task's own word wins over ours.
    headers: { accept: '*/*', 'accept-encoding': 'identity', 'user-agent': userAgent, ...headers },
    signal,
    wholeMs: limits.wholeMs,
    ...(limits.redirectsMax !== undefined && { redirectsMax: limits.redirectsMax }),
  })
}

/** Only the proxy's own faults count against it, not those of the origin. */
function blame(use: ProxyUse | null, error: unknown, url: string): void {
  if (use === null) return
  const why = isOfProxy(error)
  if (why !== null) use.failed(why.text, why.isOfTarget ? (URL.parse(url)?.host ?? url) : undefined)
  else if (wasReached(error)) use.worked()
}

async function receive(
  answer: OutboundResponse,
  { sha256: announced }: DownloadTask,
  way: DownloadFacts,
  { limits, spool: spoolOptions }: DownloadOptions,
): Promise<Spooled> {
  checkStatus(answer, way)
  const lengthSaid = lengthOf(answer.headers['content-length'])
  if (lengthSaid !== null && lengthSaid > limits.bytesMax) throw tooLarge(way, lengthSaid)
  const spool = new Spool(spoolOptions)
  try {
    const sha256 = await readInto(spool, answer.body, way)
    if (announced !== undefined && announced.toLowerCase() !== sha256) throw otherSum(way, sha256, announced)
    return {
      sha256,
      bytes: spool.bytes,
      contentType: textOf(answer.headers['content-type']),
      contentEncoding: encodingOf(answer),
      status: answer.status,
      proxy: way.proxy,
      redirects: answer.redirects,
      open: () => spool.open(),
      remove: () => spool.remove(),
    }
  } catch (error) {
    await spool.remove()
    throw error
  }
}

async function readInto(spool: Spool, body: Readable, way: DownloadFacts): Promise<string> {
  const hash = createHash('sha256')
  way.bytes = 0
  for await (const chunk of body as AsyncIterable<Buffer>) {
    way.bytes += chunk.byteLength
    if (way.bytes > way.limits.bytesMax) throw tooLarge(way, null)
    hash.update(chunk)
    const written = spool.write(chunk)
    // Usually there is nothing to await, and an await would cost a turn of the event loop per packet.
    if (written !== null) await written
  }
  await spool.finish()
  return hash.digest('hex')
}

function tooLarge(way: DownloadFacts, lengthSaid: number | null): FetchFailure {
  const { bytesMax } = way.limits
  const found = lengthSaid === null ? 'more than' : `${lengthSaid} bytes, more than`
  return failed('DOWNLOAD_TOO_LARGE', `has ${found} the ${bytesMax} bytes it may have`, way, { lengthSaid, bytesMax })
}

function otherSum(way: DownloadFacts, sha256: string, announced: string): FetchFailure {
  return failed('DOWNLOAD_CHECKSUM', `has the SHA-256 ${sha256}, not ${announced}`, way, { sha256 })
}

function failed(
  code: FetchFailure['code'],
  what: string,
  way: DownloadFacts,
  facts: Record<string, unknown>,
): FetchFailure {
  const { url, proxy, status = null, bytes } = way
  return new FetchFailure(code, `GET ${url} ${what}`, { context: { proxy, status, bytes, ...facts } })
}

/** Null when only the end of the body will tell. */
function lengthOf(header: string | string[] | undefined): number | null {
  const text = textOf(header)
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null
}

function textOf(header: string | string[] | undefined): string | null {
  return (Array.isArray(header) ? header[0] : header) ?? null
}

function encodingOf({ headers }: OutboundResponse): string | null {
  const encoding = [headers['content-encoding'] ?? []].flat().join(', ')
  return encoding === '' || encoding.toLowerCase() === 'identity' ? null : encoding
}
