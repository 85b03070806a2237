import type { Code } from '../failures/failure.ts'
import { refusal } from '../failures/refusals.ts'
import type { Requested, Resource } from './manifest.ts'

export const RESOURCES_MAX = 1_000
/** The URL-encoded id fits into a path; as a part of a key it is shortened if necessary. */
const ID_BYTES_MAX = 128
const HEADERS_MAX = 50
const HEADERS_CHARS_MAX = 16_384
const METADATA_CHARS_MAX = 32_768
/** So many problems are named; the answer counts the others. */
const PROBLEMS_MAX = 1_000
const SHOWN_CHARS_MAX = 80

/** The URL as it will be fetched; throws if it is invalid. */
export type CheckUrl = (url: string) => URL

export class Problems {
  readonly #found: { code: Code; text: string }[] = []

  add(code: Code, path: string, problem: string): void {
    this.#found.push({ code, text: `${path}: ${problem}` })
  }

  get first(): string | null {
    return this.#found[0]?.text ?? null
  }

  /** Collects all problems, so that a client can correct them in one step. */
  refuseIfAny(): void {
    const [first] = this.#found
    if (first === undefined) return
    const told = this.#found.slice(0, PROBLEMS_MAX).map(({ text }) => text)
    const more = this.#found.length - told.length
    throw refusal(first.code, { said: first.text, problems: more === 0 ? told : [...told, `and ${more} more`] })
  }
}

/** Reads what a client sent. Every problem is named, by its path. */
export function readRequest(body: unknown, checkUrl: CheckUrl): Requested {
  const problems = new Problems()
  const requested = { resources: [] as Resource[], metadata: {} as Record<string, unknown> }
  if (!isObject(body)) {
    problems.add('VALIDATION_INVALID_FIELD', 'body', 'must be an object with `resources`')
  } else {
    refuseStrangers(body, ['resources', 'metadata'], '', problems)
    requested.resources = readResources(body.resources, checkUrl, problems)
    requested.metadata = readMetadata(body.metadata, problems)
  }
  problems.refuseIfAny()
  return requested
}

/** Also for what a handler made: then a problem is the handler's. */
export function readResources(given: unknown, checkUrl: CheckUrl, problems: Problems): Resource[] {
  if (given === undefined) problems.add('VALIDATION_MISSING_FIELD', 'resources', 'is missing')
  else if (!Array.isArray(given)) problems.add('VALIDATION_INVALID_FIELD', 'resources', 'must be a list')
  else if (given.length === 0) problems.add('VALIDATION_MISSING_FIELD', 'resources', 'must have at least one resource')
  else if (given.length > RESOURCES_MAX) {
    const said = `has ${given.length} resources; at most ${RESOURCES_MAX} are taken`
    problems.add('VALIDATION_TOO_MANY_RESOURCES', 'resources', said)
  } else {
    const seen = new Map<string, number>()
    return given.map((resource, at) => {
      const read = readResource(resource, `resources[${at}]`, checkUrl, problems)
      const twin = read.id === '' ? undefined : seen.get(read.id)
      if (twin === undefined) seen.set(read.id, at)
      else problems.add('VALIDATION_DUPLICATE_ID', `resources[${at}].id`, `is that of resources[${twin}], too`)
      return read
    })
  }
  return []
}

const NO_RESOURCE: Resource = { id: '', url: '' }

function readResource(given: unknown, path: string, checkUrl: CheckUrl, problems: Problems): Resource {
  if (!isObject(given)) {
    problems.add('VALIDATION_INVALID_FIELD', path, 'must be an object with `id` and `url`')
    return NO_RESOURCE
  }
  refuseStrangers(given, ['id', 'url', 'headers', 'sha256'], path, problems)
  const headers = readHeaders(given.headers, `${path}.headers`, problems)
  const sha256 = readSha256(given.sha256, `${path}.sha256`, problems)
  return {
    id: readId(given.id, `${path}.id`, problems),
    url: readUrl(given.url, `${path}.url`, checkUrl, problems),
    ...(headers !== null && { headers }),
    ...(sha256 !== null && { sha256 }),
  }
}

function readId(id: unknown, path: string, problems: Problems): string {
  if (id === undefined) problems.add('VALIDATION_MISSING_FIELD', path, 'is missing')
  else if (typeof id !== 'string') problems.add('VALIDATION_INVALID_FIELD', path, 'must be a text')
  else if (id.trim() === '') problems.add('VALIDATION_MISSING_FIELD', path, 'is empty')
  else if (Buffer.byteLength(id) > ID_BYTES_MAX) {
    problems.add('VALIDATION_INVALID_FIELD', path, `has more than ${ID_BYTES_MAX} bytes`)
  } else if (!id.isWellFormed() || /\p{Cc}/u.test(id)) {
    problems.add('VALIDATION_INVALID_FIELD', path, 'has characters that nobody can write')
  } else return id
  return ''
}

function readUrl(url: unknown, path: string, checkUrl: CheckUrl, problems: Problems): string {
  if (url === undefined) problems.add('VALIDATION_MISSING_FIELD', path, 'is missing')
  else if (typeof url !== 'string') problems.add('VALIDATION_INVALID_URL', path, 'must be a text')
  else {
    try {
      checkUrl(url)
      return url
    } catch (error) {
      problems.add('VALIDATION_INVALID_URL', path, error instanceof Error ? error.message : 'is not a URL')
    }
  }
  return ''
}

function readHeaders(given: unknown, path: string, problems: Problems): Record<string, string> | null {
  if (given === undefined) return null
  if (!isObject(given)) {
    problems.add('VALIDATION_INVALID_FIELD', path, 'must be an object of texts')
    return null
  }
  const headers = Object.entries(given)
  if (headers.length > HEADERS_MAX)
    problems.add('VALIDATION_INVALID_FIELD', path, `has more than ${HEADERS_MAX} headers`)
  const names = new Set<string>()
  let chars = 0
  for (const [name, value] of headers) {
    const at = `${path}.${shown(name)}`
    if (typeof value !== 'string') {
      problems.add('VALIDATION_INVALID_FIELD', at, 'must be a text')
      continue
    }
    chars += name.length + value.length
    const problem = names.has(name.toLowerCase()) ? 'is there twice' : headerProblem(name, value)
    if (problem !== null) problems.add('VALIDATION_FORBIDDEN_HEADER', at, problem)
    names.add(name.toLowerCase())
  }
  if (chars > HEADERS_CHARS_MAX) {
    problems.add('VALIDATION_INVALID_FIELD', path, `has more than ${HEADERS_CHARS_MAX} characters in all`)
  }
  return Object.fromEntries(headers) as Record<string, string>
}

function readSha256(given: unknown, path: string, problems: Problems): string | null {
  if (given === undefined) return null
  if (typeof given === 'string' && /^[0-9a-f]{64}$/i.test(given)) return given.toLowerCase()
  problems.add('VALIDATION_INVALID_FIELD', path, 'must be 64 hexadecimal digits')
  return null
}

function readMetadata(given: unknown, problems: Problems): Record<string, unknown> {
  if (given === undefined) return {}
  if (!isObject(given)) {
    problems.add('VALIDATION_INVALID_FIELD', 'metadata', 'must be an object')
    return {}
  }
  if (JSON.stringify(given).length > METADATA_CHARS_MAX) {
    problems.add('VALIDATION_INVALID_FIELD', 'metadata', `has more than ${METADATA_CHARS_MAX} characters`)
    return {}
  }
  refuseOddValues(given, 'metadata', problems)
  return given
}

/**
 * Values that would break a handler: property names with a meaning in JavaScript, and numbers and strings that JSON
 * changes.
 */
function refuseOddValues(value: unknown, path: string, problems: Problems): void {
  if (typeof value === 'number' && !Number.isFinite(value)) {
    problems.add('VALIDATION_INVALID_FIELD', path, 'is a number that cannot be kept')
  }
  if (typeof value === 'string' && (!value.isWellFormed() || value.includes('\0'))) {
    problems.add('VALIDATION_INVALID_FIELD', path, 'has characters that cannot be kept')
  }
  if (typeof value !== 'object' || value === null) return
  for (const [key, part] of Object.entries(value)) {
    const at = Array.isArray(value) ? `${path}[${key}]` : `${path}.${shown(key)}`
    if (key === '__proto__' || !key.isWellFormed() || key.includes('\0')) {
      problems.add('VALIDATION_INVALID_FIELD', at, 'is not a name that can be used')
    }
    refuseOddValues(part, at, problems)
  }
}

function refuseStrangers(given: object, known: readonly string[], path: string, problems: Problems): void {
  for (const name of Object.keys(given)) {
    if (known.includes(name)) continue
    const at = path === '' ? shown(name) : `${path}.${shown(name)}`
    problems.add('VALIDATION_INVALID_FIELD', at, `is not a field; known are ${known.join(', ')}`)
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** A name that came from outside, in a line that a person reads. */
const shown = (name: string): string => {
  const short = name.slice(0, SHOWN_CHARS_MAX)
  return /^[\w-]+$/.test(short) ? short : JSON.stringify(short.toWellFormed())
}

/**
 * Headers that belong to the connection, to the message length, or to us: a task that sets them would break the
 * request.
 */
const FORBIDDEN: ReadonlySet<string> = new Set([
  'host',
  'content-length',
  'transfer-encoding',
  'connection',
  'keep-alive',
  'te',
  'trailer',
  'upgrade',
  'expect',
  'http2-settings',
  // A resource is always fetched whole and without a cache: answers 206 and 304 have nothing to store.
  'range',
  'if-range',
  'if-match',
  'if-none-match',
  'if-modified-since',
  'if-unmodified-since',
])

/** Whether a task may not set this request header. `proxy-*` headers are for the proxy. */
export function forbiddenHeader(name: string): boolean {
  const lower = name.toLowerCase()
  return FORBIDDEN.has(lower) || lower.startsWith('proxy-')
}

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/
/** Visible ASCII with inner spaces, which every server reads the same way. */
const VALUE = /^(?:[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?)?$/
const VALUE_CHARS_MAX = 8192

/** Why a task may not send this header; null if it may. The value is never repeated, because it may be a secret. */
export function headerProblem(name: string, value: string): string | null {
  if (!TOKEN.test(name)) return 'is not the name of a header'
  if (forbiddenHeader(name)) return 'is not a header that a resource may set'
  if (value.length > VALUE_CHARS_MAX) return `has more than ${VALUE_CHARS_MAX} characters`
  return VALUE.test(value) ? null : 'has a value with characters that no header may have'
}
