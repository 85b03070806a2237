import { createHmac } from 'node:crypto'
import type { Channel, Delivered, Delivery } from '../app/channels.ts'
import { RedressError } from '../core/errors.ts'
import type { Notice } from '../core/notice/notice.ts'
import { type Duration, durationMs } from '../core/text/duration.ts'
import { optionNames, refuseUnknownOptions } from '../core/text/options.ts'
import { oneLine } from '../core/text/printable.ts'
import { redactAndClip } from '../core/text/redact.ts'
import { OutboundRefused } from '../outbound/errors.ts'
import { type OutboundGuard, type OutboundOptions, outboundGuard } from '../outbound/guard.ts'
/** The options of `webhook()`. */
export interface WebhookOptions {
  /**
   * Where to send it, or a function that finds it out; null = nowhere. A text is your own word, and may be anywhere.
   * A URL from a function may come from a user: it must be on the internet, unless `outbound` allows more.
   */
  url: string | ((notice: Notice) => string | null | Promise<string | null>)
  /** 'whsec_...', the newest first: each signs, so that a receiver can change from one to the next in its own time. */
  secrets: readonly string[]
  /** Sent along, for instance an `authorization`. */
  headers?: Readonly<Record<string, string>>
  timeout?: Duration
  /** What a function may find out, beside ports 80 and 443 of the internet. */
  outbound?: OutboundOptions
  /** What is sent, as JSON; `{ type, timestamp, data }` when left out. */
  body?: (notice: Notice) => unknown
}

const OPTIONS = optionNames<WebhookOptions>({
  url: true,
  secrets: true,
  headers: true,
  timeout: true,
  outbound: true,
  body: true,
})
const ANSWER_CHARS_MAX = 200
const READ_BYTES_MAX = 1_000
const BODY_BYTES_MAX = 1024 * 1024

/** Signed HTTP requests, as the Standard Webhooks specification has them. */
export function webhook(options: WebhookOptions): Channel {
  refuseUnknownOptions('webhook()', options, OPTIONS)
  const { url, secrets, body = bodyOf } = options
  if (!Array.isArray(secrets) || secrets.length === 0) throw invalid('secrets must be a list of at least one secret')
  const keys = secrets.map(keyOf)
  const timeoutMs = durationMs(options.timeout ?? '10s', 'timeout')
  if (timeoutMs === 0) throw invalid('timeout must be longer than nothing')
  const headers = checkedHeaders(options.headers ?? {})
  if (typeof url === 'string' && readUrl(url) === null) throw invalid(NO_URL)
  if (typeof url !== 'string' && typeof url !== 'function') throw invalid('url must be a text or a function')
  if (typeof url === 'string' && options.outbound !== undefined)
    throw invalid('outbound is for a url that is a function')
  const guard = typeof url === 'string' ? null : outboundGuard(options.outbound)

  return {
    kind: 'webhook',
    async deliver(notice, delivery) {
      const target = await targetOf(url, notice, delivery)
      if (target === null) return { to: [], answer: 'there was no recipient' }
      const text = bodyText(body, notice, delivery)
      const timestamp = Math.floor(delivery.nowMs / 1000)
      const sender = guard === null ? OPEN : await guarded(guard, timeoutMs)
      try {
        return await post(target, sender, delivery, timeoutMs, text, {
          ...headers,
          'content-type': 'application/json',
          'user-agent': 'Redress',
          'webhook-id': delivery.id,
          'webhook-timestamp': String(timestamp),
          'webhook-signature': sign(keys, delivery.id, timestamp, text),
        })
      } finally {
        await sender.end()
      }
    },
  }
}

async function post(
  url: URL,
  sender: Sender,
  delivery: Delivery,
  timeoutMs: number,
  body: string,
  headers: Record<string, string>,
): Promise<Delivered> {
  const signal = AbortSignal.any([delivery.signal, AbortSignal.timeout(timeoutMs)])
  // The path of a hook is often its password.
  const to = url.origin
  let response: Response
  try {
    // A redirect is a failure: who moves must say so, and a signature is not carried to strangers.
    response = await sender.fetch(url, { method: 'POST', body, headers, signal, redirect: 'manual' })
  } catch (error) {
    delivery.signal.throwIfAborted()
    const refusal = [error, (error as { cause?: unknown })?.cause].find((one) => one instanceof OutboundRefused)
    if (refusal !== undefined) {
      const answer = `not sent: ${refusal.message}`
      return delivery.fail('RECIPIENT_NOT_ALLOWED', { detail: `${to}: ${answer}`, context: { to, answer } })
    }
    const answer = signal.aborted ? `no answer within ${timeoutMs} ms` : reasonOf(error)
    return delivery.fail('CHANNEL_DOWN', { detail: `${to}: ${answer}`, context: { to, answer } })
  }
  const answer = await answerOf(response)
  if (response.ok) return { to: [to], answer }
  const code = response.status === 410 ? 'CHANNEL_GONE' : 'CHANNEL_REFUSED'
  const cause = new HttpAnswer(answer, response)
  return delivery.fail(code, { detail: `${to}: ${answer}`, context: { to, answer }, cause })
}

interface Sender {
  fetch: typeof fetch
  end(): Promise<void>
}

const OPEN: Sender = { fetch: (...given) => fetch(...given), end: async () => undefined }

/** Goes to checked addresses only. Made for one delivery, so that nothing of it is left when that ends. */
async function guarded(guard: OutboundGuard, timeoutMs: number): Promise<Sender> {
  const [{ fetch: send }, { outboundAgent }] = await Promise.all([import('undici'), import('../outbound/agent.ts')])
  const dispatcher = outboundAgent({ guard, connectMs: timeoutMs, headersMs: timeoutMs, bodyMs: timeoutMs })
  return {
    fetch: async (url, init) => {
      // Before fetch itself refuses some ports, in words of its own that would be tried again.
      const checked = guard.check(url as URL)
      return (await send(checked, { ...init, dispatcher } as never)) as unknown as Response
    },
    end: () => dispatcher.destroy(),
  }
}

/** Status and headers, where the engine looks for them: a Retry-After is heard. */
class HttpAnswer extends Error {
  override readonly name = 'HttpAnswer'
  readonly status: number
  readonly headers: Headers

  constructor(answer: string, { status, headers }: Response) {
    super(answer)
    this.status = status
    this.headers = headers
  }
}

/** 'fetch failed' says nothing; its cause does. */
function reasonOf(error: unknown): string {
  const { code, message } = ((error as { cause?: unknown })?.cause ?? error) as { code?: string; message?: string }
  return redactAndClip(oneLine([code, message].filter(Boolean).join(': ')), ANSWER_CHARS_MAX) || 'it could not be sent'
}

async function answerOf(response: Response): Promise<string> {
  const words = redactAndClip(oneLine(await firstWords(response)), ANSWER_CHARS_MAX)
  return `HTTP ${response.status}${words === '' ? '' : `: ${words}`}`
}

/** As much as a person would read; the rest of a long answer is not fetched. */
async function firstWords({ body }: Response): Promise<string> {
  if (body === null) return ''
  const decoder = new TextDecoder()
  let text = ''
  try {
    for await (const part of body) {
      text += decoder.decode(part as Uint8Array, { stream: true })
      if (text.length >= READ_BYTES_MAX) break
    }
  } catch {
    // The status came, and it is what counts.
  }
  return text
}

/** The notice in the shape that the specification recommends. */
function bodyOf(notice: Notice): object {
  return { type: typeOf(notice), timestamp: notice.at, data: notice }
}

function typeOf(notice: Notice): string {
  switch (notice.kind) {
    case 'failed':
    case 'orphaned':
      return `job.${notice.kind}`
    case 'settled':
      return 'batch.settled'
    case 'app':
      return notice.name
    case 'test':
      return 'redress.test'
  }
}

function bodyText(body: NonNullable<WebhookOptions['body']>, notice: Notice, delivery: Delivery): string {
  let text: string | undefined
  try {
    text = JSON.stringify(body(notice))
  } catch (error) {
    return delivery.fail('NOTICE_UNRENDERABLE', { cause: error })
  }
  if (text === undefined) return delivery.fail('NOTICE_UNRENDERABLE', { detail: 'body answered with no JSON value' })
  if (Buffer.byteLength(text) <= BODY_BYTES_MAX) return text
  return delivery.fail('NOTICE_UNRENDERABLE', { detail: `the body has more than ${BODY_BYTES_MAX} bytes` })
}

async function targetOf(url: WebhookOptions['url'], notice: Notice, delivery: Delivery): Promise<URL | null> {
  let named: string | null
  try {
    named = typeof url === 'string' ? url : await url(notice)
  } catch (error) {
    return delivery.fail('NOTICE_UNRENDERABLE', { cause: error })
  }
  if (named === null || named === undefined) return null
  return readUrl(named) ?? delivery.fail('RECIPIENT_INVALID', { detail: NO_URL })
}

const NO_URL = 'url must be an http(s) address without a name and password in it: send those as headers'

function readUrl(text: unknown): URL | null {
  const url = typeof text === 'string' ? URL.parse(text) : null
  if (url === null || !['http:', 'https:'].includes(url.protocol)) return null
  return url.username === '' && url.password === '' ? url : null
}

/** Refused when declared, by name only: a value may be a password. */
function checkedHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => {
      const lower = name.toLowerCase()
      if (lower.startsWith('webhook-')) throw invalid(`${lower} is a header of the signature, and not yours to set`)
      try {
        // What is not set would be sent as the word 'undefined'.
        if (typeof value !== 'string') throw new TypeError()
        new Headers([[lower, value]])
      } catch {
        throw invalid(`the header ${JSON.stringify(name)} has an invalid name or value`)
      }
      return [lower, value]
    }),
  )
}

const invalid = (message: string) => new RedressError('OPTION_INVALID', `webhook: ${message}.`)

/** Signatures as the Standard Webhooks specification (1.0.0) has them, symmetric. */

const PREFIX = 'whsec_'
const BYTES_MIN = 24
const BYTES_MAX = 64
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/

/** The key in a secret. What is wrong is said without the secret. */
export function keyOf(secret: unknown): Buffer {
  const text = typeof secret === 'string' && secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : ''
  const key = BASE64.test(text) ? Buffer.from(text, 'base64') : Buffer.alloc(0)
  if (key.length >= BYTES_MIN && key.length <= BYTES_MAX) return key
  throw new RedressError(
    'OPTION_INVALID',
    `webhook: a secret must be '${PREFIX}' and the base64 of ${BYTES_MIN} to ${BYTES_MAX} random bytes.`,
    { action: `Make one: node -p "'${PREFIX}' + crypto.randomBytes(32).toString('base64')"` },
  )
}

/** One signature for each key, so that a receiver may know the old secret or the new one. */
export function sign(keys: readonly Buffer[], id: string, timestamp: number, body: string): string {
  const content = `${id}.${timestamp}.${body}`
  return keys.map((key) => `v1,${createHmac('sha256', key).update(content).digest('base64')}`).join(' ')
}
