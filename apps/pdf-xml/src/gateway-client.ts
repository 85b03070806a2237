import {
  type IncomingHttpHeaders,
  type IncomingMessage,
  type RequestOptions,
  request as requestPlainly,
} from 'node:http'
import { request as requestSecurely } from 'node:https'
import { pipeline } from 'node:stream/promises'
import { readEarlyAnswers, retryAfterHeaderMs } from 'redress/outbound'
import type { Code } from './codes.ts'
import { NOTICES_HEADER, PARSERS_HEADER, STATE_HEADER } from './gateway/interim-responses.ts'

export interface GatewayCall {
  url: string
  mapping: string
  source: AsyncIterable<Uint8Array>
  /** Counts from the moment when the gateway reports that parsing begins; without such a report, from the call. */
  timeoutMs: number
  /** How long the document may wait for its turn in the gateway. */
  waitMs: number
  /** Called as soon as the gateway reports how many documents it parses at once. */
  learnParsers?(parsers: number): void
  signal: AbortSignal
  traceparent: string | null
}

export interface Converted {
  body: AsyncIterable<Uint8Array>
  /** 'text@1' */
  mapping: string
  pages: number | null
  /** How long the parser itself was busy with it. */
  parseMs: number | null
}

/** The gateway refused the document, failed, or did not answer. Maps that to one of our codes. */
export class GatewayFailed extends Error {
  override readonly name = 'GatewayFailed'
  readonly code: Code
  readonly status: number | null
  /** Text that the owner may read. */
  readonly note: string | null
  readonly retryAfterMs: number | null
  readonly isFinal: boolean
  /** The gateway's own code for a refusal: 'ENCRYPTED'. */
  readonly gatewayCode: string | null

  constructor(
    code: Code,
    message: string,
    more: {
      status?: number
      note?: string | null
      retryAfterMs?: number | null
      isFinal?: boolean
      gatewayCode?: string | undefined
      cause?: unknown
    } = {},
  ) {
    super(message, 'cause' in more ? { cause: more.cause } : undefined)
    this.code = code
    this.status = more.status ?? null
    this.note = more.note ?? null
    this.retryAfterMs = more.retryAfterMs ?? null
    this.isFinal = more.isFinal ?? false
    this.gatewayCode = more.gatewayCode ?? null
  }
}

/**
 * The gateway is saturated, or the document had no turn in time. Neither side is at fault: the document waits here
 * and loses no attempt.
 */
export class GatewayBusy extends Error {
  override readonly name = 'GatewayBusy'
  readonly retryAfterMs: number

  constructor(message: string, retryAfterMs = 0) {
    super(message)
    this.retryAfterMs = retryAfterMs
  }
}

/** Sends the document. Resolves with the head of the answer; its body fails with GatewayFailed, too. */
export async function callGateway(call: GatewayCall): Promise<Converted> {
  const { url, mapping, traceparent } = call
  const timeout = new CallTimeout(call)
  const signal = AbortSignal.any([call.signal, timeout.signal])
  const source = watched(call.source)
  const failed = (error: unknown): unknown => {
    // An aborted attempt is no answer of the gateway.
    if (call.signal.aborted) return call.signal.reason
    if (source.failure !== null) return source.failure.error
    return timeout.signal.aborted ? timeout.signal.reason : unreachable(error)
  }
  const heard = (headers: IncomingHttpHeaders) => {
    const parsers = wholeNumber(headerIn(headers, PARSERS_HEADER))
    if (parsers !== null && parsers > 0) call.learnParsers?.(parsers)
  }
  let answer: IncomingMessage
  try {
    answer = await ask(`${url}/process?mapping=${encodeURIComponent(mapping)}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/pdf',
        accept: 'application/xml',
        [NOTICES_HEADER]: '1',
        ...(traceparent !== null && { traceparent }),
      },
      body: source.chunks,
      signal,
      onNotice: (headers) => {
        heard(headers)
        timeout.onState(headerIn(headers, STATE_HEADER))
      },
    })
  } catch (error) {
    timeout.end()
    throw failed(error)
  }
  const { statusCode: status = 0, headers } = answer
  heard(headers)
  if (status !== 200) throw await refused(answer, status).finally(() => timeout.end())
  const type = headers['content-type'] ?? ''
  if (!/^(application|text)\/xml\b/.test(type)) {
    answer.destroy()
    timeout.end()
    throw new GatewayFailed('GW_5XX', `the gateway answered 200 with ${type || 'no content type'}`, { status })
  }
  return {
    body: failing(answer, failed, () => timeout.end()),
    mapping: headerOf(answer, 'x-mapping') ?? mapping,
    pages: wholeNumber(headerOf(answer, 'x-pages')),
    parseMs: wholeNumber(headerOf(answer, 'x-parse-ms')),
  }
}

/** The least time after which a gateway that says nothing about a waiting document counts as gone. */
const SILENCE_MS_MIN = 10_000

/** The timeout of a call. It restarts when the gateway reports that a document waits or that its parsing begins. */
class CallTimeout {
  readonly #timeoutMs: number
  readonly #waitMs: number
  readonly #over = new AbortController()
  #clock: NodeJS.Timeout | undefined
  #turn: NodeJS.Timeout | undefined

  constructor({ timeoutMs, waitMs }: Pick<GatewayCall, 'timeoutMs' | 'waitMs'>) {
    this.#timeoutMs = timeoutMs
    this.#waitMs = waitMs
    this.#start(timeoutMs)
  }

  get signal(): AbortSignal {
    return this.#over.signal
  }

  onState(state: string | null): void {
    if (this.signal.aborted) return
    if (state === 'waiting') {
      this.#start(Math.max(this.#timeoutMs, SILENCE_MS_MIN))
      this.#turn ??= setTimeout(() => {
        this.#over.abort(new GatewayBusy(`the document had no turn in ${this.#waitMs} ms`))
      }, this.#waitMs)
    } else if (state === 'parsing') {
      clearTimeout(this.#turn)
      this.#start(this.#timeoutMs)
    }
  }

  end(): void {
    clearTimeout(this.#clock)
    clearTimeout(this.#turn)
  }

  #start(ms: number): void {
    clearTimeout(this.#clock)
    this.#clock = setTimeout(() => this.#over.abort(tooLate(ms)), ms)
  }
}

/** The gateway's health: whether it answers, and how many documents it parses at once, if it reports that. */
async function probeGateway(url: string, signal: AbortSignal): Promise<{ parsers: number | null }> {
  const answer = await ask(`${url}/health`, { signal })
  const parsers = wholeNumber(headerIn(answer.headers, PARSERS_HEADER))
  const { statusCode } = answer
  // A saturated gateway is healthy: it gets more documents as soon as it has capacity.
  const isWell = statusCode === 200 || (statusCode === 503 && headerIn(answer.headers, STATE_HEADER) === 'saturated')
  answer.destroy()
  if (!isWell) throw new Error(`the gateway answered ${statusCode} when asked for its health`)
  return { parsers }
}

interface Asked extends Pick<RequestOptions, 'method' | 'headers'> {
  signal: AbortSignal
  body?: AsyncIterable<Uint8Array>
  /** The headers of an interim response of the gateway. */
  onNotice?(headers: IncomingHttpHeaders): void
}

/**
 * Resolves with the head of an answer. Does not use `fetch`, which kept whole request bodies in memory: ten documents
 * of 50 MB took 500 MB. Each call opens its own connection, because a reused one may be closing.
 */
function ask(address: string, { body, onNotice, ...options }: Asked): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const start = address.startsWith('https:') ? requestSecurely : requestPlainly
    const request = start(address, { ...options, agent: false })
    request.once('socket', readEarlyAnswers)
    request.on('information', ({ headers }) => onNotice?.(headers))
    request.once('response', resolve)
    // Also listens after the answer has begun: an error without a listener would end the process.
    request.on('error', reject)
    if (body === undefined) request.end()
    else pipeline(body, request).catch(reject)
  })
}

const tooLate = (timeoutMs: number): GatewayFailed =>
  new GatewayFailed('GW_TIMEOUT', `the gateway took longer than ${timeoutMs} ms`)

const unreachable = (cause: unknown): GatewayFailed =>
  new GatewayFailed('GW_5XX', 'the gateway could not be reached, or hung up', { cause })

const REFUSALS: ReadonlySet<number> = new Set([400, 406, 413, 415, 422])
const SAID_BYTES_MAX = 16_384

/** D7 E7: maps a status to the side at fault. A 404 means that our URL is wrong, not the document. */
async function refused(answer: IncomingMessage, status: number): Promise<GatewayFailed | GatewayBusy> {
  const said = await errorIn(answer)
  const message = `the gateway answered ${status}${said === null ? '' : ` ${said.code}: ${said.message}`}`
  const retryAfterMs = retryAfterHeaderMs(headerOf(answer, 'retry-after'), Date.now())
  if (status === 503 && said?.code === 'SATURATED') return new GatewayBusy(message, retryAfterMs ?? 0)
  // The document needs more memory than there is for one: it will the next time, too.
  if (said?.code === 'MEMORY') {
    return new GatewayFailed('UNKNOWN', message, {
      status,
      isFinal: true,
      note: 'It needs more memory than one file may use.',
    })
  }
  if (REFUSALS.has(status))
    return new GatewayFailed('GW_4XX', message, {
      status,
      gatewayCode: said?.code,
      note: said === null ? null : fitToShow(said.message),
    })
  const code = status === 408 || said?.code === 'PARSE_TIMEOUT' ? 'GW_TIMEOUT' : 'GW_5XX'
  return new GatewayFailed(code, message, { status, retryAfterMs })
}

/** The error in an answer of our own gateway. Any other body may be a page with paths in it, so it is ignored. */
async function errorIn(answer: IncomingMessage): Promise<{ code: string; message: string } | null> {
  try {
    let text = ''
    // Left in the middle, the answer is destroyed, and with it the sending of a document that is refused already.
    for await (const chunk of answer) {
      text += (chunk as Buffer).toString()
      if (text.length > SAID_BYTES_MAX) return null
    }
    const { error } = JSON.parse(text) as { error?: { code?: unknown; message?: unknown } }
    return typeof error?.code === 'string' && typeof error.message === 'string'
      ? { code: error.code, message: error.message }
      : null
  } catch {
    // Not an answer of our gateway: the status is all we know.
    return null
  } finally {
    answer.destroy()
  }
}

const NOTE_CHARS_MAX = 300

/**
 * D25 D26: one line about the document. Messages that look like a path or a stack trace are dropped, whatever gateway
 * sent them.
 */
function fitToShow(message: string): string | null {
  const isInside = /\n|[/\\][\w.-]+[/\\]|\bat \S+:\d|^\w*Error\b/.test(message)
  return isInside || message.length > NOTE_CHARS_MAX ? null : message
}

/** Remembers that it was the source that failed: a request would report it as trouble with the network. */
function watched(source: AsyncIterable<Uint8Array>) {
  const watch = { failure: null as { error: unknown } | null, chunks: chunks() }
  async function* chunks(): AsyncGenerator<Uint8Array> {
    try {
      yield* source
    } catch (error) {
      watch.failure = { error }
      throw error
    }
  }
  return watch
}

async function* failing(
  body: AsyncIterable<Uint8Array>,
  failed: (error: unknown) => unknown,
  ended: () => void,
): AsyncGenerator<Uint8Array> {
  try {
    yield* body
  } catch (error) {
    throw failed(error)
  } finally {
    ended()
  }
}

const headerOf = ({ headers }: IncomingMessage, name: string): string | null => headerIn(headers, name)

function headerIn(headers: IncomingHttpHeaders, name: string): string | null {
  const value = headers[name]
  return typeof value === 'string' ? value : null
}

function wholeNumber(text: string | null): number | null {
  return text !== null && /^\d{1,9}$/.test(text) ? Number(text) : null
}

/** One document more than the gateway parses is in transfer, so that no parser waits for an upload. */
const AHEAD = 1
const ASK_MS_MAX = 2_000

/**
 * How many documents this process may send to the gateway at once. The gateway reports how many it parses; more would
 * only wait in its queue, or be refused. Without such a report, the limit is the number of slots of the worker.
 */
export class GatewayCapacity {
  readonly #url: () => string
  #isAsked = false
  #isKnown = false
  #parsers: number | null = null

  constructor(url: () => string) {
    this.#url = url
  }

  /** Zero until the gateway has answered once, which takes a moment. */
  get slots(): number {
    if (!this.#isAsked) void this.#ask()
    if (!this.#isKnown) return 0
    return this.#parsers === null ? Number.POSITIVE_INFINITY : this.#parsers + AHEAD
  }

  learn(parsers: number): void {
    this.#parsers = parsers
  }

  async probe(signal: AbortSignal): Promise<void> {
    const { parsers } = await probeGateway(this.#url(), signal)
    if (parsers !== null) this.learn(parsers)
  }

  async #ask(): Promise<void> {
    this.#isAsked = true
    try {
      await this.probe(AbortSignal.timeout(ASK_MS_MAX))
    } catch {
      // The gateway is down, or does not support this request. Conversions will show it, and the breaker counts them.
    }
    this.#isKnown = true
  }
}
