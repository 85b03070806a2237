/**
 * Takes secrets out of text and values before anything is stored. Nothing here throws or changes what it is given.
 *
 * It errs towards redacting, but a failure record without its facts helps nobody: `key: "a.pdf"` (an object's key in
 * S3), `token_id`, `tokenizer` and `max_tokens: 100` stay readable. Both directions are tested.
 */
const REDACTED = '[redacted]'

// biome-ignore lint/suspicious/noControlCharactersInRegex: the escape character is what begins a colour code
const COLOUR_CODE = /\u001b\[[0-9;?]{0,32}[A-Za-z]/g
const PRIVATE_KEY = /-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g
const URL_LOGIN = /(:\/\/)[^\s/?#"'<>]+@/g
// People forget to escape a slash in a password; `host:8080/@scope` is not that.
const URL_LOGIN_WITH_SLASH = /(:\/\/)[^\s/?#@:"'<>[]{0,128}:(?!\d{1,5}[/?#])[^\s@"'<>]{1,256}@/g
const BARE_LOGIN = /(?<![\w./:-])[\w.+-]{1,64}:[^\s:@/"'<>]{1,128}@(?=[\w.-]{1,255}:\d)/g
// "Basic authentication failed" is prose: credentials have a capital, a digit or great length.
const AUTH_SCHEME =
  /\b([Bb]earer|BEARER|[Bb]asic|BASIC)(\s{1,4})(?:(?=[\w.~+/-]*[A-Z0-9=])[\w.~+/=-]{8,}|[\w.~+/=-]{20,})/g
const TOKEN_SHAPES = [
  /eyJ[\w-]{8,2000}\.[\w-]*(?:\.[\w-]*)*/, // JSON web tokens
  /gh[opusr]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|npm_\w{20,}/,
  /xox[abeoprs]-[\w-]{8,}/, // Slack
  /sk-(?=[\w-]{0,200}\d)[\w-]{16,}|[sr]k_(?:live|test)_\w{8,}/, // model and payment services
  /(?:AKIA|ASIA)[A-Z0-9]{12,}|AIza[\w-]{30,}/, // AWS, Google
  /wh(?:sec|sk)_[\w+/=-]{16,}/, // webhooks
  /rdr[sl]?_[\w-]{16,}/, // our own: tokens, sessions and sign-in links (secret.ts)
]
const TOKEN_SHAPE = new RegExp(`(?<![A-Za-z0-9])(?:${TOKEN_SHAPES.map(({ source }) => source).join('|')})`, 'g')
// Looked for first: it is one cheap pass, and most text has none of these.
const MAY_HAVE_SHAPE =
  /eyJ|A(?:KIA|SIA|Iza)|[Bb](?:earer|asic )|B(?:EARER|ASIC )|(?:gh[opusr]|github_pat|[sr]k|npm|wh(?:sec|sk)|rdr[sl]?)_|(?:xox.|sk|glpat)-/
// Command lines, which child_process puts into its messages: `--password x`, `-u bob:x`.
const FLAG_WORDS = 'password|passwd|passphrase|secret|token|api-?key|access-?key|private-?key|credentials?'
const SECRET_FLAG = new RegExp(`(--[\\w-]{0,40}(?:${FLAG_WORDS})[ \\t]+["']?)(?!-)[^\\s"']+`, 'gi')
const LOGIN_FLAG = /(\s(?:-u|--user|--proxy-user)[ \t]+["']?)[^\s"':]+:[^\s"']+/g
// A key with one of these in it is worth a closer look; see secrecyOf.
const KEY_WORDS = 'pass|pwd?|secret|token|jwt|key|sig|credential|auth|cookie|sess|[cx]srf|string'
const KEY_AND_SEPARATOR = new RegExp(
  `((?:${KEY_WORDS}|(?<=[?&])(?:code|sid|sv)(?==))[\\w-]{0,40})(\\\\*["']?)[ \\t]{0,4}([=:])[ \\t]{0,4}`,
  'gi',
)

export function redactText(text: string): string {
  let safe = text
  // Colour codes go first: standing inside a secret they would hide it from every rule below.
  if (safe.includes('\u001b')) safe = safe.replace(COLOUR_CODE, '')
  if (safe.includes('@')) {
    if (safe.includes('://')) {
      safe = safe.replace(URL_LOGIN, `$1${REDACTED}@`).replace(URL_LOGIN_WITH_SLASH, `$1${REDACTED}@`)
    }
    safe = safe.replace(BARE_LOGIN, `${REDACTED}@`)
  }
  if (safe.includes('--') || safe.includes('-u ')) {
    safe = safe.replace(SECRET_FLAG, `$1${REDACTED}`).replace(LOGIN_FLAG, `$1${REDACTED}`)
  }
  if (safe.includes('PRIVATE KEY')) safe = safe.replace(PRIVATE_KEY, REDACTED)
  safe = redactKeyed(safe)
  if (!MAY_HAVE_SHAPE.test(safe)) return safe
  return safe.replace(AUTH_SCHEME, `$1$2${REDACTED}`).replace(TOKEN_SHAPE, REDACTED)
}

/**
 * Removes passwords from addresses in a text and changes nothing else: for messages and log lines that must stay
 * intact.
 */
export function redactAddresses(text: string): string {
  if (!text.includes('://')) return text
  return text.replace(/\b[a-z][a-z\d+.-]*:\/\/[^\s"'<>`\\]+/gi, (address) => {
    const withoutUser = address.replace(/(:\/\/)[^\s:/?#@]+@/, '$1')
    return redactText(withoutUser) === withoutUser ? address : redactText(address)
  })
}

/** `key=value`, `key: value` and `"key":"value"`, in queries, headers, connection strings and JSON alike. */
function redactKeyed(text: string): string {
  let safe = ''
  let doneTo = 0
  KEY_AND_SEPARATOR.lastIndex = 0
  for (let found = KEY_AND_SEPARATOR.exec(text); found !== null; found = KEY_AND_SEPARATOR.exec(text)) {
    const [matched, keyEnd = '', quote = '', separator = ''] = found
    let keyAt = found.index
    while (keyAt > doneTo && /[\w.-]/.test(text.charAt(keyAt - 1))) keyAt--
    const key = text.slice(keyAt, found.index + keyEnd.length)
    const inQuery = /[?&#]/.test(text.charAt(keyAt - 1))
    const kind = inQuery && QUERY_ONLY.test(key) ? 'weak' : secrecyOf(key)
    // Weak words stand in prose too ("auth: refused"), so they count only where a program wrote them.
    if (kind === 'none' || (kind === 'weak' && separator === ':' && quote === '')) continue
    const value = valueAfter(text, found.index + matched.length, WHOLE_LINE.test(key) && separator === ':')
    if (value.start >= value.end || isPlainCount(text.slice(value.start, value.end), key, kind)) continue
    safe += text.slice(doneTo, value.start) + REDACTED
    doneTo = value.end
    KEY_AND_SEPARATOR.lastIndex = value.end
  }
  return doneTo === 0 ? text : safe + text.slice(doneTo)
}

function valueAfter(text: string, at: number, wholeLine: boolean): { start: number; end: number } {
  const opening = /^\\*["'`]/.exec(text.slice(at, at + 8))?.[0]
  if (opening !== undefined) {
    // JSON inside JSON escapes its quotes: `\"` opened it, so only `\"` closes it, and `\\\"` does not.
    const start = at + opening.length
    for (let i = text.indexOf(opening, start); i >= 0; i = text.indexOf(opening, i + 1)) {
      if (text.charAt(i - 1) !== '\\') return { start, end: i }
    }
    return { start, end: text.length }
  }
  if (text.charAt(at) === '{' || text.charAt(at) === '[') return { start: at, end: closingBracket(text, at) }
  const stop = wholeLine ? /[\r\n]/g : /[\s&;,"'`<>()[\]{}|\\]/g
  stop.lastIndex = at
  return { start: at, end: stop.exec(text)?.index ?? text.length }
}

function closingBracket(text: string, at: number): number {
  let depth = 0
  for (let i = at; i < text.length; i++) {
    const char = text.charAt(i)
    if (char === '{' || char === '[') depth++
    if ((char === '}' || char === ']') && --depth === 0) return i + 1
  }
  return text.length
}

// Headers whose value is everything up to the end of the line, spaces and all.
const WHOLE_LINE = /(?:authorization|cookies?)$/i
// `key=` is a secret in a URL and the name of a file nearly everywhere else.
const QUERY_ONLY = /^(?:key|code|sid|sv)$/i
const KEYS = '(?:secret|private|access|account|shared|auth|encryption|signing|master|subscription|api)keys?'
const WORDS =
  'password|passwd|passphrase|passcode|pwd|secrets?|tokens?|jwt|signature|credentials?|authorization|cookies?'
const COMPOUNDS = 'accesskeyid|secretkeybase|sessionid|sessid|connectionstring'
const STRONG = new RegExp(`(?:${KEYS}|${WORDS}|${COMPOUNDS})(?:hash|digest|confirm|confirmation|value|header|plain)?$`)
const WEAK = /(?:^|[^A-Za-z])(?:auth|sig|sess|session|pass|pw|csrf|xsrf)$|[a-z](?:Auth|Session|Sig|Pass)$/
const WEAK_ANY_CASE = /^(?:auth|sig|session|pass|pw)$/i

function secrecyOf(key: string): 'strong' | 'weak' | 'none' {
  if (WEAK.test(key) || WEAK_ANY_CASE.test(key)) return 'weak'
  // X-Api-Key, api_key2 and apiKey are all 'apikey'.
  return STRONG.test(key.toLowerCase().replace(/[^a-z]/g, '')) ? 'strong' : 'none'
}

/** `max_tokens: 4096` and `pass=2` count something; `token=123456` may be a secret. */
function isPlainCount(value: string, key: string, kind: 'strong' | 'weak'): boolean {
  return kind === 'weak' ? /^\d{1,3}$/.test(value) : /tokens$/i.test(key) && /^\d{1,12}$/.test(value)
}

/** A property of an untrusted value: a getter or a Proxy may throw. */
export function read(value: unknown, key: PropertyKey): unknown {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return undefined
  try {
    return (value as Record<PropertyKey, unknown>)[key]
  } catch {
    return undefined
  }
}

/** Bounded text that every store can hold: PostgreSQL takes neither NUL nor half a surrogate pair. */
export function clip(text: string, charsMax: number): string {
  let kept = text.length <= charsMax ? text : `${text.slice(0, charsMax - 1)}…`
  if (kept.includes('\0')) kept = kept.replaceAll('\0', '\ufffd')
  return kept.isWellFormed() ? kept : kept.toWellFormed()
}

/** Redacts first and cuts after: half a secret is still a secret, and no rule would know it any more. */
export function redactAndClip(text: string, charsMax: number): string {
  return clip(redactText(text.length > 4 * charsMax ? text.slice(0, 4 * charsMax) : text), charsMax)
}

export interface Bounds {
  depthMax: number
  keysMax: number
  itemsMax: number
  textCharsMax: number
  totalCharsMax: number
}

const BOUNDS: Bounds = { depthMax: 8, keysMax: 200, itemsMax: 200, textCharsMax: 4000, totalCharsMax: 16_000 }
const KEY_CHARS_MAX = 200

interface Walk extends Bounds {
  charsLeft: number
  /** The objects we are inside of, to notice cycles and depth. */
  within: object[]
}

/** A redacted copy that JSON can hold; what cannot be copied is named in brackets. */
export function redactValue(value: unknown, bounds: Partial<Bounds> = {}): unknown {
  const limits = { ...BOUNDS, ...bounds }
  return copy(value, { ...limits, charsLeft: limits.totalCharsMax, within: [] })
}

function copy(value: unknown, walk: Walk): unknown {
  walk.charsLeft -= 8
  if (walk.charsLeft <= 0) return '[cut]'
  if (typeof value === 'string') return copyText(value, walk)
  if (typeof value === 'bigint') return copyText(String(value), walk)
  // JSON has one zero.
  if (typeof value === 'number') return Number.isFinite(value) ? value + 0 : String(value)
  if (typeof value === 'boolean') return value
  if (value === null || value === undefined) return null
  if (typeof value !== 'object') return `[${typeof value}]`
  if (walk.within.includes(value)) return '[circular]'
  if (walk.within.length >= walk.depthMax) return '[too deep]'
  walk.within.push(value)
  try {
    return copyObject(value, walk)
  } catch {
    return '[unreadable]'
  } finally {
    walk.within.pop()
  }
}

function copyText(text: string, walk: Walk): string {
  const kept = redactAndClip(text, Math.min(walk.textCharsMax, walk.charsLeft))
  walk.charsLeft -= kept.length
  return kept
}

function copyObject(value: object, walk: Walk): unknown {
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return `[${value.byteLength} bytes]`
  if (Array.isArray(value)) return copyList(value, value.length, walk)
  if (value instanceof Set) return copyList(value, value.size, walk)
  if (value instanceof Map) return copyFields([...value.keys()], (key) => value.get(key), walk)
  const field = (key: unknown): unknown => (value as Record<string, unknown>)[key as string]
  if (value instanceof Error) {
    const keys = new Set(['name', 'message', ...Object.keys(value), 'cause'])
    return copyFields([...keys], field, walk)
  }
  // Dates and URLs say themselves what they are in JSON.
  const toJSON = read(value, 'toJSON')
  if (typeof toJSON === 'function') return copy(toJSON.call(value), walk)
  return copyFields(Object.keys(value), field, walk)
}

function copyList(items: Iterable<unknown>, count: number, walk: Walk): unknown[] {
  const list: unknown[] = []
  for (const item of items) {
    if (list.length >= walk.itemsMax || walk.charsLeft <= 0) {
      list.push(`[${count - list.length} more]`)
      break
    }
    list.push(copy(item, walk))
  }
  return list
}

function copyFields(keys: readonly unknown[], field: (key: unknown) => unknown, walk: Walk): Record<string, unknown> {
  const fields: [string, unknown][] = []
  for (const key of keys) {
    if (fields.length >= walk.keysMax || walk.charsLeft <= 0) {
      fields.push(['…', `[${keys.length - fields.length} more]`])
      break
    }
    // V8's JSON.parse (seen in Node 24) can read the key `"` back as `\\`, once it has seen an object with that key: a
    // record must come back as it was written, so no key in it has a quote.
    const name = redactAndClip(typeof key === 'string' ? key : `[${typeof key}]`, KEY_CHARS_MAX).replaceAll('"', "'")
    walk.charsLeft -= name.length
    try {
      const held = field(key)
      if (held !== undefined) fields.push([name, isSecretField(name, held) ? REDACTED : copy(held, walk)])
    } catch {
      fields.push([name, '[unreadable]'])
    }
  }
  // fromEntries defines its fields, so one called __proto__ stays a field.
  return Object.fromEntries(fields)
}

function isSecretField(key: string, held: unknown): boolean {
  if (held === null || typeof held === 'boolean') return false
  const kind = secrecyOf(key)
  return kind !== 'none' && !(typeof held === 'number' && isPlainCount(String(held), key, kind))
}
