import { readFileSync } from 'node:fs'
import { ERRORS, type ErrorCode, RedressError } from '../../core/errors.ts'
import type { ServerTarget } from '../../http/app-module.ts'
import type { ErrorAnswer } from '../../http/routes/error-answer.ts'
import { CATALOG, type OperationName } from '../../operations/catalog.ts'
import { requestOf } from '../../operations/request-of.ts'
import { quoted } from '../language/commands.ts'
import type { Parsed } from '../language/parse.ts'
import { LISTS } from '../render/lists.ts'
import type { FollowOptions, LiveEvent, Target } from './target.ts'

const ANSWER_MS_MAX = 30_000
/** The server sends at least a comment every 15 s. */
const SILENCE_MS_MAX = 45_000
const AGAIN_MS = 500
const AGAIN_MS_MAX = 5_000

/** Sends a request to a server, and throws its refusal as a RedressError. */
type Ask = ServerTarget['ask']

function headersFor(values: Parsed['values']): Record<string, string> {
  const token = findToken(values)
  return token === null ? {} : { authorization: `Bearer ${token}` }
}

const askAt =
  (base: string, headers: Record<string, string>): Ask =>
  async ({ method, path, body, mutates, withinMs = ANSWER_MS_MAX }) => {
    try {
      const response = await fetch(`${base}${path}`, {
        method,
        headers: {
          ...headers,
          accept: 'application/json',
          ...(body !== null && { 'content-type': 'application/json' }),
        },
        ...(body !== null && { body }),
        // A token must not go where a redirect leads.
        redirect: 'manual',
        signal: AbortSignal.timeout(withinMs),
      })
      return await readAnswer(base, response)
    } catch (error) {
      throw asUnreachable(base, error, mutates, withinMs)
    }
  }

/** The same operations over HTTP, by the routes of the table. */
export function openRemote(address: string, values: Parsed['values'], isGiven: boolean): Target & { ask: Ask } {
  const base = checkedAddress(address)
  const headers = headersFor(values)
  const ask = askAt(base, headers)
  const say = (path: string) => `${base}${path}`

  async function perform(name: OperationName, input: object): Promise<unknown> {
    const answer = await ask({ ...addressed(name, input), mutates: CATALOG[name].mutates })
    if (isAnswerTo(name, answer)) return answer
    throw notRedress(base, 'its answer has another format')
  }

  async function connect(options: FollowOptions, lastId: string | null, silence: AbortSignal): Promise<Response> {
    const query = options.topics.map((topic) => `topic=${encodeURIComponent(topic)}`).join('&')
    try {
      const response = await fetch(say(`/api/events?${query}`), {
        headers: { ...headers, accept: 'text/event-stream', ...(lastId !== null && { 'last-event-id': lastId }) },
        redirect: 'manual',
        signal: AbortSignal.any([options.signal, silence]),
      })
      if (response.ok && response.headers.get('content-type')?.startsWith('text/event-stream')) return response
      await readAnswer(base, response)
      throw notRedress(base, 'it does not send events')
    } catch (error) {
      throw asUnreachable(base, error, false, ANSWER_MS_MAX)
    }
  }

  async function* follow(options: FollowOptions): AsyncGenerator<LiveEvent> {
    const { signal, onReady, onTrouble } = options
    let lastId = options.after
    let wasConnected = false
    for (let tries = 0; !signal.aborted; ) {
      const silence = silenceAlarm()
      try {
        const response = await connect(options, lastId, silence.signal)
        if (!wasConnected) onReady?.()
        wasConnected = true
        tries = 0
        for await (const { id, event, data } of readSse(silence.watch(response.body as ReadableStream<Uint8Array>))) {
          lastId = id ?? lastId
          if (event === 'end') break
          yield { id, event, data: JSON.parse(data) }
        }
      } catch (error) {
        if (signal.aborted) return
        // A refusal is final, and a server that was never reached is not retried.
        const isPassing = !(error instanceof RedressError) || error.exitCode === 5
        if (!wasConnected || !isPassing) throw error
      } finally {
        silence.stop()
      }
      if (signal.aborted) return
      if (tries === 0) onTrouble(`The connection to ${base} broke; reconnecting, no events are lost.`)
      await pause(Math.min(AGAIN_MS * 2 ** tries++, AGAIN_MS_MAX), signal)
    }
  }

  return {
    ask,
    perform: perform as Target['perform'],
    follow,
    flags: flagsOf(base, values, isGiven),
    server: base,
    stop: async () => undefined,
  }
}

/** What leads another command to the same place, and lets it in. */
function flagsOf(base: string, { 'token-file': file }: Parsed['values'], isGiven: boolean): string {
  const server = isGiven ? ` --server ${quoted(base)}` : ''
  return typeof file === 'string' ? `${server} --token-file ${quoted(file)}` : server
}

function addressed(name: OperationName, input: object): ReturnType<typeof requestOf> {
  try {
    return requestOf(name, input)
  } catch (error) {
    throw new RedressError('OPTION_INVALID', error instanceof Error ? error.message : String(error), { cause: error })
  }
}

async function readAnswer(base: string, response: Response): Promise<unknown> {
  if (response.status >= 300 && response.status < 400) {
    const to = response.headers.get('location') ?? 'nowhere'
    throw notRedress(base, `it redirects to ${to}; use that address if it is the right one`)
  }
  const isJson = response.headers.get('content-type')?.includes('json') === true
  const text = await response.text()
  const answer = isJson ? parsed(text) : undefined
  if (response.ok && answer !== undefined) return answer
  const error = (answer as { error?: Partial<Refusal> } | undefined)?.error
  if (typeof error?.code !== 'string') throw notRedress(base, `it answered ${response.status} in another format`)
  throw refusalOf(error as Refusal, response.status)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Other programs answer with JSON, too. Only what every version of this answer has is looked for. */
function isAnswerTo(name: OperationName, answer: unknown): boolean {
  if (typeof answer !== 'object' || answer === null || Array.isArray(answer)) return false
  const fields = answer as Record<string, unknown>
  const list = (LISTS as Partial<Record<OperationName, string>>)[name]
  if (list !== undefined) return Array.isArray(fields[list])
  return !CATALOG[name].mutates || typeof fields.did === 'string'
}

/** A newer server may send codes that this command does not know, and an older one may leave fields out. */
type Refusal = { code: string; message: string } & Partial<Omit<ErrorAnswer['error'], 'code' | 'message'>>

function refusalOf({ code, message, action, jobId, problems, incident }: Refusal, status: number): RedressError {
  const isKnown = Object.hasOwn(ERRORS, code)
  const fallback: ErrorCode = status >= 500 ? 'SERVER_FAILED' : 'REQUEST_INVALID'
  const said = isKnown ? message : `${code}: ${message}`
  const remedy = code === 'SIGN_IN_REQUIRED' ? 'Put a token into REDRESS_TOKEN, or give --token-file.' : action
  return new RedressError(isKnown ? (code as ErrorCode) : fallback, incident ? `${said} Incident ${incident}.` : said, {
    ...(remedy !== undefined && { action: remedy }),
    ...(jobId !== undefined && { jobId }),
    ...(problems !== undefined && { problems }),
  })
}

const notRedress = (base: string, why: string): RedressError =>
  new RedressError('SERVER_UNREACHABLE', `There is no Redress server at ${base}: ${why}.`)

const BROKEN: ReadonlySet<string> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT'])

function asUnreachable(base: string, error: unknown, mutates: boolean, withinMs: number): unknown {
  if (error instanceof RedressError) return error
  const { name, cause } = error as { name?: string; cause?: { code?: string; message?: string } }
  if (name === 'AbortError') return error
  const perhaps = mutates ? ' It may have been done: check before you repeat it.' : ''
  if (name === 'TimeoutError') {
    return new RedressError('SERVER_UNREACHABLE', `${base} did not answer within ${withinMs / 1000} s.${perhaps}`, {
      cause: error,
    })
  }
  // The connection broke after the request was sent: the server may have run it.
  if (cause?.code !== undefined && BROKEN.has(cause.code)) {
    return new RedressError('SERVER_UNREACHABLE', `The connection to ${base} broke before it answered.${perhaps}`, {
      cause: error,
    })
  }
  const why = cause?.code ?? cause?.message ?? (error instanceof Error ? error.message : String(error))
  return new RedressError('SERVER_UNREACHABLE', `${base} cannot be reached: ${why}.`, { cause: error })
}

function checkedAddress(text: string): string {
  const url = URL.parse(text)
  const isOne = url !== null && (url.protocol === 'http:' || url.protocol === 'https:')
  if (isOne && url.username === '' && url.password === '' && url.search === '' && url.hash === '') {
    return `${url.origin}${url.pathname.replace(/\/+$/, '')}`
  }
  throw new RedressError('USAGE', 'The server address is invalid; it must be like https://jobs.example.org.', {
    action: 'Check --server or REDRESS_SERVER; a token goes into REDRESS_TOKEN or a file.',
  })
}

function findToken(values: Parsed['values']): string | null {
  const { REDRESS_TOKEN, REDRESS_TOKEN_FILE } = process.env
  const file = values['token-file']
  if (typeof file === 'string') return checkedToken(readToken(file), file)
  if (REDRESS_TOKEN) return checkedToken(REDRESS_TOKEN, 'REDRESS_TOKEN')
  return REDRESS_TOKEN_FILE ? checkedToken(readToken(REDRESS_TOKEN_FILE), REDRESS_TOKEN_FILE) : null
}

function readToken(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new RedressError('USAGE', `Cannot read the token from ${path}.`, {
      cause: error,
      action: 'Check the path.',
    })
  }
}

/** Never shown, not even when it is wrong. */
function checkedToken(text: string, where: string): string {
  const token = text.trim()
  if (/^[\x21-\x7e]+$/.test(token)) return token
  throw new RedressError('USAGE', `${where} does not contain a token: one word is expected.`, {
    action: 'Create one with `redress tokens create`, and store nothing else there.',
  })
}

/** Ends a connection on which nothing comes any more: the other side may be gone without a word. */
function silenceAlarm() {
  const alarm = new AbortController()
  let timer = setTimeout(() => alarm.abort(), SILENCE_MS_MAX)
  async function* watch(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunks) {
      clearTimeout(timer)
      timer = setTimeout(() => alarm.abort(), SILENCE_MS_MAX)
      yield chunk
    }
  }
  return { signal: alarm.signal, watch, stop: () => clearTimeout(timer) }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms)
    function done(): void {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    signal.addEventListener('abort', done)
  })
}

export interface SseMessage {
  /** null if the message has no id. */
  id: string | null
  event: string
  data: string
}

const LINE_END = /\r\n|\r|\n/

/** The messages of an event stream. Comments only keep the connection open and are skipped. */
export async function* readSse(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<SseMessage> {
  const decoder = new TextDecoder()
  let rest = ''
  let id: string | null = null
  let event = 'message'
  let data: string[] = []
  for await (const chunk of chunks) {
    rest += decoder.decode(chunk, { stream: true })
    // A bare CR at the end may be the first half of CR LF.
    const end = rest.endsWith('\r') ? rest.length - 1 : rest.length
    const lines = rest.slice(0, end).split(LINE_END)
    rest = (lines.pop() as string) + rest.slice(end)
    for (const line of lines) {
      if (line === '') {
        if (data.length > 0) yield { id, event, data: data.join('\n') }
        id = null
        event = 'message'
        data = []
        continue
      }
      const [, field = '', value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? []
      if (field === 'id') id = value
      else if (field === 'event') event = value
      else if (field === 'data') data.push(value)
    }
  }
}
