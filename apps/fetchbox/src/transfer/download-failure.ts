import {
  ConnectFailed,
  NameNotResolved,
  OutboundRefused,
  type OutboundResponse,
  ProxyFailed,
  RedirectFailed,
  retryAfterHeaderMs,
  timeoutPhase,
} from 'redress/outbound'
import { type Code, type FailureContext, FetchFailure } from '../failures/failure.ts'
import type { DownloadLimits } from './download.ts'

/** The facts known about a download when it fails. */
export interface DownloadFacts {
  /** As it may be shown. */
  url: string
  proxy: string | null
  limits: DownloadLimits
  nowMs: number
  /** Once the origin has answered. */
  status?: number
  redirects?: number
  /** Of the body, once it comes. */
  bytes?: number
}

const URL_CHARS_MAX = 150

/** Without the query, where signatures and tokens are; a login is not even fetched. */
export function shownUrl(text: string): string {
  const url = URL.parse(text)
  if (url === null) return 'a text that is no URL'
  const shown = `${url.protocol}//${url.host}${url.pathname}`
  const kept = shown.length <= URL_CHARS_MAX ? shown : `${shown.slice(0, URL_CHARS_MAX - 1)}…`
  return url.search === '' ? kept : `${kept}?…`
}

const BY_STATUS: Readonly<Record<number, Code>> = {
  408: 'DOWNLOAD_HTTP_408',
  429: 'DOWNLOAD_HTTP_429',
  499: 'DOWNLOAD_HTTP_499',
}

/** 200 and 203 bring the resource, and 204 an empty one. A part (206) or a promise (202) was not requested. */
const GOOD: ReadonlySet<number> = new Set([200, 203, 204])

/** Throws unless the answer brings the resource (F7, F9). */
export function checkStatus({ status, headers }: OutboundResponse, way: DownloadFacts): void {
  if (GOOD.has(status)) return
  const code = BY_STATUS[status] ?? byClass(status)
  const after = headers['retry-after']
  const wait = retryAfterHeaderMs(Array.isArray(after) ? after[0] : after, way.nowMs)
  throw failed(code, `was answered with ${status}`, way, {}, { ...(wait !== null && { retryAfterMs: wait }) })
}

function byClass(status: number): Code {
  if (status >= 500) return 'DOWNLOAD_HTTP_5XX'
  return status >= 400 ? 'DOWNLOAD_HTTP_4XX' : 'DOWNLOAD_HTTP_UNEXPECTED'
}

/** Maps a thrown error to one of our codes (F7, F9). */
export function downloadFailure(error: unknown, way: DownloadFacts): FetchFailure {
  const phase = timeoutPhase(error)
  if (phase !== null) return timedOut(phase, error, way)
  if (error instanceof OutboundRefused) return refused(error, way)
  if (error instanceof RedirectFailed) return redirected(error, way)
  if (error instanceof NameNotResolved) {
    return failed('DOWNLOAD_DNS', `failed: ${error.host} could not be resolved`, way, errnoOf(error.cause), {
      cause: error,
    })
  }
  if (error instanceof ProxyFailed) {
    const facts = { proxyCode: error.code, proxyStatus: error.status }
    return failed('DOWNLOAD_PROXY_FAILED', `failed: ${sentence(error)}`, way, facts, { cause: error })
  }
  if (error instanceof ConnectFailed) {
    const code = error.code === 'TLS_FAILED' ? 'DOWNLOAD_TLS' : 'DOWNLOAD_CONNECTION'
    return failed(code, `failed: ${sentence(error)}`, way, errnoOf(error.cause), { cause: error })
  }
  return broken(error, way)
}

const WAITED_FOR = {
  connect: 'a connection',
  headers: 'the headers',
  body: 'more of the body',
  whole: 'the whole',
} as const

function timedOut(phase: keyof typeof WAITED_FOR, cause: unknown, way: DownloadFacts): FetchFailure {
  const { connectMs, headersMs, bodyMs, wholeMs } = way.limits
  const limitMs = { connect: connectMs, headers: headersMs, body: bodyMs, whole: wholeMs }[phase]
  const what = `timed out after ${limitMs / 1000} s of waiting for ${WAITED_FOR[phase]}`
  return failed('DOWNLOAD_TIMEOUT', what, way, { phase }, { cause })
}

/** The URL is invalid, not forbidden: its author must correct it. */
const NO_URL: ReadonlySet<string> = new Set(['URL_INVALID', 'SCHEME_NOT_ALLOWED', 'USERINFO_NOT_ALLOWED'])

function refused(error: OutboundRefused, way: DownloadFacts): FetchFailure {
  const facts = { refused: error.code, redirects: error.hop }
  if (error.code === 'HEADER_NOT_ALLOWED') {
    return failed('VALIDATION_FORBIDDEN_HEADER', `failed: ${sentence(error)}`, way, facts, { cause: error })
  }
  if (error.hop > 0) {
    return failed('DOWNLOAD_REDIRECT_FORBIDDEN', `was redirected: ${sentence(error)}`, way, facts, { cause: error })
  }
  const code = NO_URL.has(error.code) ? 'DOWNLOAD_INVALID_URL' : 'DOWNLOAD_URL_FORBIDDEN'
  return failed(code, `was refused: ${sentence(error)}`, way, facts, { cause: error })
}

function redirected(error: RedirectFailed, way: DownloadFacts): FetchFailure {
  const isEndless = error.code === 'TOO_MANY_REDIRECTS' || error.code === 'REDIRECT_LOOP'
  const code = isEndless ? 'DOWNLOAD_TOO_MANY_REDIRECTS' : 'DOWNLOAD_REDIRECT_FORBIDDEN'
  return failed(
    code,
    `failed: ${sentence(error)}`,
    way,
    { redirects: error.hop, redirect: error.code },
    { cause: error },
  )
}

const CUT_SHORT: ReadonlySet<string> = new Set([
  // The other side closed in order, and too early.
  'UND_ERR_SOCKET',
  'UND_ERR_RES_CONTENT_LENGTH_MISMATCH',
])
const BROKEN = /^(?:UND_ERR_SOCKET|ECONN|EPIPE|EHOST|ENET|ETIMEDOUT)/
const NOT_HTTP = /^(?:HPE_|UND_ERR_HEADERS_OVERFLOW|UND_ERR_RES_|UND_ERR_RESPONSE)/

/** Undici's errors, and the system's below them, once there was a connection. */
function broken(cause: unknown, way: DownloadFacts): FetchFailure {
  const facts = errnoOf(cause)
  const { errno = '' } = facts
  const isInBody = way.bytes !== undefined
  if (isInBody && (CUT_SHORT.has(errno) || isEndOfChunks(cause))) {
    return failed('DOWNLOAD_INCOMPLETE', `was cut off after ${way.bytes} bytes`, way, facts, { cause })
  }
  if (BROKEN.test(errno)) {
    const when = isInBody ? `after ${way.bytes} bytes` : 'before it was answered'
    return failed('DOWNLOAD_CONNECTION', `lost its connection ${when} (${errno})`, way, facts, { cause })
  }
  if (NOT_HTTP.test(errno) || isOfParser(cause)) {
    return failed(
      'DOWNLOAD_PROTOCOL',
      `was answered with something that is not HTTP${errno && ` (${errno})`}`,
      way,
      facts,
      { cause },
    )
  }
  return failed('SYSTEM_UNKNOWN', 'failed in a way that nobody foresaw', way, facts, { cause })
}

/** The parser's errors do not always have a code. */
const isOfParser = (error: unknown): boolean => (error as { name?: unknown } | null)?.name === 'HTTPParserError'

/** The connection ended where another chunk was expected. */
const isEndOfChunks = (error: unknown): boolean => isOfParser(error) && (error as { data?: unknown }).data === ''

function failed(
  code: Code,
  what: string,
  { url, proxy, status, redirects, bytes }: DownloadFacts,
  facts: Partial<FailureContext>,
  more: { cause?: unknown; retryAfterMs?: number } = {},
): FetchFailure {
  const context = {
    proxy,
    status: status ?? null,
    ...(redirects !== undefined && { redirects }),
    ...(bytes !== undefined && { bytes }),
    ...facts,
  }
  return new FetchFailure(code, `GET ${url} ${what}`, { context, ...more })
}

/** Without the final dot, because it becomes part of another sentence. */
const sentence = ({ message }: Error): string => message.replace(/\.$/, '')

function errnoOf(error: unknown): { errno?: string } {
  const { code } = (error ?? {}) as { code?: unknown }
  return typeof code === 'string' ? { errno: code } : {}
}

interface ProxyBlame {
  text: string
  /** It says that it cannot reach the origin, which may be true. */
  isOfTarget: boolean
}

/** The fault of the proxy itself; null if the origin or the network is at fault. */
export function isOfProxy(error: unknown): ProxyBlame | null {
  if (!(error instanceof ProxyFailed)) return null
  const isOfTarget = error.code === 'PROXY_GATEWAY' || error.code === 'PROXY_TIMEOUT' || error.code === 'PROXY_REFUSED'
  return { text: sentence(error), isOfTarget }
}

/** The proxy had connected us to the origin by then. */
export function wasReached(error: unknown): boolean {
  return error instanceof ConnectFailed && error.code === 'TLS_FAILED'
}
