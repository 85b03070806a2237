import type { IncomingHttpHeaders } from 'node:http'
import type { Readable } from 'node:stream'
import { type Dispatcher, request } from 'undici'
import { optionNames, refuseUnknownOptions } from '../core/text/options.ts'
import { OutboundRefused, OutboundTimeout, RedirectFailed } from './errors.ts'
import type { OutboundGuard } from './guard.ts'

/** The options of `outboundRequest()`. */
export interface OutboundRequestOptions {
  guard: OutboundGuard
  /** Of `outboundAgent`, with the same guard. */
  agent: Dispatcher
  /** GET when left out. */
  method?: Dispatcher.HttpMethod
  headers?: Readonly<Record<string, string>>
  body?: string | Uint8Array
  signal?: AbortSignal
  /** For everything: redirects, headers, and the body to its end. No such limit when left out. */
  wholeMs?: number
  /** 5 when left out; 0 hands a redirect over as the answer. */
  redirectsMax?: number
}

const OPTIONS = optionNames<OutboundRequestOptions>({
  guard: true,
  agent: true,
  method: true,
  headers: true,
  body: true,
  signal: true,
  wholeMs: true,
  redirectsMax: true,
})

/** The answer to a guarded request. */
export interface OutboundResponse {
  /** Where the answer came from, after the redirects. */
  url: URL
  status: number
  headers: IncomingHttpHeaders
  /** Must be read or destroyed: it holds the connection. */
  body: Readable
  redirects: number
}

const REDIRECTS_MAX = 5
const REDIRECTS = new Set([301, 302, 303, 307, 308])

/** Belong to the connection, or say where it leads. */
const NOT_TO_BE_GIVEN = new Set([
  'host',
  'connection',
  'content-length',
  'expect',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/** After a redirect to another origin, only these headers are sent. */
const SENT_TO_OTHER_ORIGINS = new Set(['accept', 'accept-encoding', 'accept-language', 'user-agent'])

interface Step {
  url: URL
  method: Dispatcher.HttpMethod
  headers: Record<string, string>
  body: string | Uint8Array | null
}

/** One request, with its redirects followed: each is checked, looked up and connected to like the first. */
export async function outboundRequest(url: string | URL, options: OutboundRequestOptions): Promise<OutboundResponse> {
  refuseUnknownOptions('outboundRequest()', options, OPTIONS)
  const { guard, redirectsMax = REDIRECTS_MAX, method = 'GET', body = null } = options
  let step: Step = { url: guard.check(url), method, headers: checkedHeaders(options.headers ?? {}), body }
  const end = endOf(options)
  const seen = new Set<string>()
  try {
    for (let hop = 0; ; hop++) {
      seen.add(nameOf(step))
      const answer = await atHop(hop, () => send(step, options.agent, end.signal))
      const { location } = answer.headers
      if (redirectsMax === 0 || !REDIRECTS.has(answer.statusCode) || location === undefined) {
        return handOver(answer, step, hop, end.clear)
      }
      // It is not worth waiting for.
      answer.body.on('error', () => undefined).destroy()
      if (hop >= redirectsMax) {
        throw new RedirectFailed('TOO_MANY_REDIRECTS', hop, `More than ${redirectsMax} redirects were not followed.`)
      }
      step = await atHop(hop + 1, async () => nextStep(step, answer.statusCode, location, guard, hop))
      if (seen.has(nameOf(step))) throw new RedirectFailed('REDIRECT_LOOP', hop, 'The redirects lead in a circle.')
    }
  } catch (error) {
    end.clear()
    throw error
  }
}

function send({ url, ...what }: Step, dispatcher: Dispatcher, signal: AbortSignal): Promise<Dispatcher.ResponseData> {
  return request(url, { dispatcher, signal, ...what })
}

function handOver(answer: Dispatcher.ResponseData, { url }: Step, redirects: number, clear: () => void) {
  const { statusCode: status, headers, body } = answer
  // Who reads it hears of a failure by reading. Who does not, and destroys it, must not bring the process down.
  body.on('error', () => undefined).once('close', clear)
  return { url, status, headers, body, redirects }
}

/** A refusal says how far the request had come: in a copy, as requests that wait for one connection share its failure. */
async function atHop<T>(hop: number, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof OutboundRefused)) throw error
    const { code, message, host, address } = error
    const where = { hop, ...(host === null ? {} : { host }), ...(address === null ? {} : { address }) }
    throw new OutboundRefused(code, message, where)
  }
}

function nextStep(from: Step, status: number, location: unknown, guard: OutboundGuard, hop: number): Step {
  const target = typeof location === 'string' ? URL.parse(location, from.url.href) : null
  if (target === null) throw new RedirectFailed('REDIRECT_INVALID', hop, 'The redirect leads to no URL.')
  const url = guard.check(target)
  if (from.url.protocol === 'https:' && url.protocol === 'http:') {
    throw new RedirectFailed('REDIRECT_DOWNGRADE', hop, 'A redirect from https to http is not followed.')
  }
  const step = asGet(from, status) ? withoutBody(from) : from
  if (url.origin === from.url.origin) return { ...step, url }
  if (step.body !== null) {
    throw new RedirectFailed('REDIRECT_WITH_BODY', hop, 'The redirect would send the body to another origin.')
  }
  const kept = Object.entries(step.headers).filter(([name]) => SENT_TO_OTHER_ORIGINS.has(name))
  return { ...step, url, headers: Object.fromEntries(kept) }
}

function asGet({ method }: Step, status: number): boolean {
  return (status === 303 && method !== 'HEAD') || ((status === 301 || status === 302) && method === 'POST')
}

function withoutBody(step: Step): Step {
  const kept = Object.entries(step.headers).filter(([name]) => !name.startsWith('content-'))
  return { ...step, method: 'GET', body: null, headers: Object.fromEntries(kept) }
}

function nameOf({ method, url }: Step): string {
  return `${method} ${url.origin}${url.pathname}${url.search}`
}

function checkedHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([given, value]) => {
      const name = given.toLowerCase()
      if (!NOT_TO_BE_GIVEN.has(name)) return [name, value]
      throw new OutboundRefused('HEADER_NOT_ALLOWED', `The header ${name} cannot be given with a request.`)
    }),
  )
}

/** The caller's signal and the limit for the whole, as one. The timer must not outlive the request. */
function endOf({ signal, wholeMs }: OutboundRequestOptions): { signal: AbortSignal; clear: () => void } {
  const whole = new AbortController()
  const timer = wholeMs === undefined ? undefined : setTimeout(() => whole.abort(new OutboundTimeout(wholeMs)), wholeMs)
  const both = signal === undefined ? whole.signal : AbortSignal.any([signal, whole.signal])
  return { signal: both, clear: () => clearTimeout(timer) }
}
