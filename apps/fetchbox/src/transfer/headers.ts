/** What belongs to one connection, to the message's own length, or to us: a task that sets it would break the request. */
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
  // A resource is fetched whole, and what was fetched before is not known: 206 and 304 bring nothing to store.
  'range',
  'if-range',
  'if-match',
  'if-none-match',
  'if-modified-since',
  'if-unmodified-since',
])

/** Whether a task may not set this request header. `proxy-*` is between us and the proxy. */
export function forbiddenHeader(name: string): boolean {
  const lower = name.toLowerCase()
  return FORBIDDEN.has(lower) || lower.startsWith('proxy-')
}

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/
/** Visible ASCII and blanks within: what every server reads alike. */
const VALUE = /^(?:[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?)?$/
const VALUE_CHARS_MAX = 8192

/** Why a task may not send this header, in words; null when it may. The value is never repeated: it may be a secret. */
export function headerProblem(name: string, value: string): string | null {
  if (!TOKEN.test(name)) return 'is not the name of a header'
  if (forbiddenHeader(name)) return 'is not a header that a resource may set'
  if (value.length > VALUE_CHARS_MAX) return `has more than ${VALUE_CHARS_MAX} characters`
  return VALUE.test(value) ? null : 'has a value with characters that no header may have'
}
