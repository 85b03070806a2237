import { randomUUID } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { ERRORS, type ErrorCode, RedressError } from '../../core/errors.ts'
import type { Log } from '../../runtime/log.ts'
import { SAFE_HEADERS } from '../callers/guard.ts'
import { downPage } from '../pages.ts'
import { noteOnRequest } from '../request-log.ts'
import { StoreAway } from '../store-watch.ts'
import type { ErrorAnswer } from './error-answer.ts'

/** Server errors whose messages are safe for callers. */
const SAFE_TO_TELL: ReadonlySet<ErrorCode> = new Set(['BACKLOG_FULL', 'SERVER_UNREACHABLE', 'SERVER_STOPPING'])

/** For these errors, browsers get a page. */
const STORE_IS_GONE: ReadonlySet<ErrorCode> = new Set(['STORE_UNREACHABLE', 'STORE_NOT_FOUND', 'STORE_BUSY'])

const NOT_TOLD = 'The server failed; the cause is in its log.'
const RETRY_AFTER_MS = 5_000

/** Refusals of Fastify itself, with our codes and messages. */
const FRAMEWORK: Readonly<Record<string, [code: ErrorCode, message: string]>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: ['PAYLOAD_TOO_LARGE', 'The body of this request is too large.'],
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['MEDIA_TYPE_UNSUPPORTED', 'This route takes application/json.'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: ['REQUEST_INVALID', 'The body is not as long as Content-Length says.'],
  FST_ERR_CTP_INVALID_JSON_BODY: ['REQUEST_INVALID', 'The body is not JSON.'],
  FST_ERR_BAD_URL: ['REQUEST_INVALID', 'The path of this request cannot be decoded.'],
  FST_ERR_MAX_PARAM_LENGTH: ['REQUEST_INVALID', 'A part of the path is too long.'],
}

export function toRedressError(error: unknown): RedressError {
  if (error instanceof RedressError) return error
  const { code = '', statusCode = 500 } = (error ?? {}) as { code?: string; statusCode?: number }
  const known = Object.hasOwn(FRAMEWORK, code) ? FRAMEWORK[code] : undefined
  if (known !== undefined) return new RedressError(known[0], known[1], { cause: error })
  if (error instanceof SyntaxError && statusCode === 400) {
    return new RedressError('REQUEST_INVALID', 'The body is not JSON.', { cause: error })
  }
  if (statusCode >= 400 && statusCode < 500) {
    return new RedressError('REQUEST_INVALID', 'The server cannot process this request.', { cause: error })
  }
  return new RedressError('SERVER_FAILED', NOT_TOLD, { cause: error })
}

/** Never contains a stack trace, a path of the server or a message of the database. */
function answerOf(error: RedressError, log: Log, request: FastifyRequest): ErrorAnswer {
  const { code, message, action, jobId, problems } = error
  if (error.httpStatus < 500 || SAFE_TO_TELL.has(code) || error instanceof StoreAway) {
    return {
      error: {
        code,
        message,
        action,
        ...(jobId !== undefined && { jobId }),
        ...(problems.length > 0 && { problems: [...problems] }),
      },
    }
  }
  const incident = randomUUID()
  log.error({ err: error, incident, method: request.method, route: request.routeOptions.url }, 'a request failed')
  return { error: { code, message: NOT_TOLD, action: ERRORS[code].action, incident } }
}

/** The message of a code in a job type's own table; null if the table does not list it. */
export type CopyOf = (type: string, code: string) => string | null

function inItsWords(error: RedressError, copyOf: CopyOf): RedressError {
  const { code, jobType, jobId, action } = error
  const message = jobType === undefined ? null : copyOf(jobType, code)
  return message === null ? error : new RedressError(code, message, { cause: error, action, ...(jobId && { jobId }) })
}

/**
 * Every route refuses in this one format, as do unknown routes. A refusal about a job uses the messages of its type.
 * Must be called before routes are added.
 */
export function answerErrors(server: FastifyInstance, log: Log, copyOf: CopyOf): void {
  const methodsOf = methodsServed(server)
  server.setErrorHandler((thrown, request, reply) =>
    refuse(inItsWords(toRedressError(thrown), copyOf), log, request, reply),
  )
  server.setNotFoundHandler((request, reply) => {
    const methods = methodsOf(request.url.split('?')[0] ?? '')
    if (methods.length > 0 && !methods.includes(request.method)) {
      const message = `${request.method} is not a method of ${shortened(request.url)}; it has ${methods.join(', ')}.`
      return refuse(
        new RedressError('METHOD_NOT_ALLOWED', message),
        log,
        request,
        reply.header('allow', methods.join(', ')),
      )
    }
    const error = new RedressError('ROUTE_NOT_FOUND', `There is no ${request.method} ${shortened(request.url)} here.`)
    return refuse(error, log, request, reply)
  })
}

export function refuse(error: RedressError, log: Log, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const { code, httpStatus, retryAfterMs } = error
  void reply.code(httpStatus).headers(SAFE_HEADERS).header('cache-control', 'no-store')
  if (code === 'SIGN_IN_REQUIRED') void reply.header('www-authenticate', 'Bearer realm="redress"')
  // The rest of the body is not read, so the connection cannot be reused.
  if (httpStatus === 413 || httpStatus === 408) void reply.header('connection', 'close')
  if (httpStatus === 429 || httpStatus === 503) {
    void reply.header('retry-after', String(Math.max(1, Math.ceil((retryAfterMs ?? RETRY_AFTER_MS) / 1000))))
  }
  const answer = answerOf(error, log, request)
  const { incident } = answer.error
  noteOnRequest(request, { error_code: code, ...(incident !== undefined && { incident }) })
  if (STORE_IS_GONE.has(code) && request.headers.accept?.includes('text/html')) {
    return reply.type('text/html; charset=utf-8').send(downPage(code))
  }
  return reply.send(answer)
}

/** Without the query, which may contain secrets. */
const shortened = (url: string): string => (url.split('?')[0] ?? '').slice(0, 200)

/** Which methods a path has; none for an unknown path. Must be called before routes are added. */
function methodsServed(server: FastifyInstance): (path: string) => string[] {
  const served = new Map<string, { pattern: RegExp; methods: Set<string> }>()
  server.addHook('onRoute', ({ url, method }) => {
    const known = served.get(url) ?? { pattern: patternOf(url), methods: new Set() }
    for (const name of [method].flat()) known.methods.add(name)
    served.set(url, known)
  })
  return (path) => {
    const fitting = [...served.values()].filter(({ pattern }) => pattern.test(path))
    return [...new Set(fitting.flatMap(({ methods }) => [...methods]))].sort()
  }
}

/** `/api/jobs/:id`, and `/files/*` of an app. */
function patternOf(url: string): RegExp {
  const parts = url.split('/').map((part) => {
    if (part.startsWith(':')) return '[^/]+'
    return part.replace(/[.+?^${}()|[\]\\]/g, '\\$&').replaceAll('*', '.*')
  })
  return new RegExp(`^${parts.join('/')}$`)
}
