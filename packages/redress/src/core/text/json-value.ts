import { RedressError } from '../errors.ts'

type Path = readonly (string | number)[]

/** A place that JSON would change. */
interface Change {
  path: Path
  /** Completes the sentence "pages[3].size ...". */
  problem: string
  action: string
}

/** A Date, which JSON turns into text. Only the reader of the value knows whether it becomes a Date again. */
export interface DateInValue {
  path: Path
  atMs: number
}

interface Walk {
  /** Of an input, every change is refused. Of a result, an instance of a class is kept if JSON keeps its fields. */
  isInput: boolean
  /** Where a Date is allowed; null refuses it. */
  dates: DateInValue[] | null
  /** The objects around the current one; null until the value is so deep that it may be circular. */
  within: Set<object> | null
  /** The objects near the root are not in `within`. */
  isPartial: boolean
}

/** A value that is deeper than this is watched for cycles, which costs time. */
const DEPTH_UNWATCHED_MAX = 64

/**
 * The JSON text of a value that reads back as the same value. Otherwise the error names the first place that JSON would
 * change. `what` is the subject of the sentence: "The input of pdf.convert".
 */
export function packInput(what: string, value: unknown, bytesMax: number, dates: DateInValue[] | null = null): string {
  const change = firstChange(value, { isInput: true, dates, within: null, isPartial: false })
  if (change !== null) {
    const message = `${what} cannot be kept as JSON: ${sentenceOf(change)}.`
    throw new RedressError('PAYLOAD_NOT_JSON', message, { action: change.action })
  }
  const text = JSON.stringify(value)
  const problem = sizeProblem(value, text, bytesMax)
  if (problem === null) return text
  throw new RedressError('PAYLOAD_TOO_LARGE', `${what} ${problem}.`)
}

/** The JSON text of a result, or why it cannot be kept. Dates become text, as the type of the result says. */
export function packOutput(value: unknown, bytesMax: number): { text: string } | { problem: string } {
  const change = firstChange(value, { isInput: false, dates: [], within: null, isPartial: false })
  if (change !== null) return { problem: `is not JSON: ${sentenceOf(change)}. ${change.action}` }
  const text = JSON.stringify(value)
  const problem = sizeProblem(value, text, bytesMax)
  return problem === null ? { text } : { problem }
}

/** The error for a Date that the schema of its type does not read back. */
export function dateRefused(what: string, { path }: DateInValue): RedressError {
  const place = path.length === 0 ? 'it' : pathText(path)
  return new RedressError('PAYLOAD_NOT_JSON', `${what} cannot be kept as JSON: ${place} is a Date.`, {
    action: DATE_ACTION,
  })
}

/** The first Date for which the value that was read back has no equal Date at the same place. */
export function dateNotReadBack(dates: readonly DateInValue[], read: unknown): DateInValue | null {
  return dates.find(({ path, atMs }) => !isDateAt(read, path, atMs)) ?? null
}

function isDateAt(read: unknown, path: Path, atMs: number): boolean {
  let value = read
  for (const part of path) value = (value as Record<string | number, unknown> | null | undefined)?.[part]
  return timeOf(value) === atMs
}

/** The time of a Date, of any realm; null for any other value. */
function timeOf(value: unknown): number | null {
  return Object.prototype.toString.call(value) === '[object Date]' ? Number(value) : null
}

const DATE_ACTION =
  "Give the type's schema a codec that makes a Date of it, such as z.coerce.date(), or submit date.toISOString()."

function firstChange(value: unknown, walk: Walk): Change | null {
  const path: (string | number)[] = []
  try {
    return changeIn(value, path, walk)
  } catch (error) {
    if (error instanceof Circular) {
      if (walk.dates !== null) walk.dates.length = 0
      return firstChange(value, { ...walk, within: new Set() })
    }
    if (error instanceof RangeError) {
      return { path: [], problem: 'is nested too deeply', action: 'Make it flatter, or store it elsewhere.' }
    }
    const said = error instanceof Error ? error.message : String(error)
    return { path, problem: `cannot be read: ${said}`, action: 'Use a plain object.' }
  }
}

/** Thrown where a cycle is met deep in a value: a second walk finds the shortest path to it. */
class Circular extends Error {}

/** The path is changed on the way down and back, so that a value without problems costs no copies. */
function changeIn(value: unknown, path: (string | number)[], walk: Walk): Change | null {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return null
    case 'number':
      if (Number.isFinite(value)) return null
      return { path: [...path], problem: `is ${value}`, action: 'Use null, a number or a text instead.' }
    case 'object':
      return value === null ? null : changeInObject(value, path, walk)
    default:
      return { path: [...path], ...UNKEPT[typeof value as keyof typeof UNKEPT] }
  }
}

const UNKEPT = {
  undefined: { problem: 'is undefined', action: 'Use null instead.' },
  function: { problem: 'is a function', action: 'Use data instead of code.' },
  symbol: { problem: 'is a symbol', action: 'Use its name as text.' },
  bigint: { problem: 'is a BigInt', action: 'Use text: String(value).' },
}

function changeInObject(value: object, path: (string | number)[], walk: Walk): Change | null {
  const { within } = walk
  if (within === null && path.length > DEPTH_UNWATCHED_MAX) return watched(value, path, walk)
  if (within?.has(value) === true) {
    if (walk.isPartial) throw new Circular()
    return {
      path: [...path],
      problem: 'is circular: it contains itself',
      action: 'Use an id instead of the object again.',
    }
  }
  within?.add(value)
  const change = Array.isArray(value) ? changeInList(value, path, walk) : changeInFields(value, path, walk)
  within?.delete(value)
  return change
}

/** From here on cycles are looked for. */
function watched(value: object, path: (string | number)[], walk: Walk): Change | null {
  return changeInObject(value, path, { ...walk, within: new Set(), isPartial: true })
}

function changeInList(list: readonly unknown[], path: (string | number)[], walk: Walk): Change | null {
  for (let i = 0; i < list.length; i++) {
    path.push(i)
    const change = i in list ? changeIn(list[i], path, walk) : { path: [...path], ...MISSING_ITEM }
    if (change !== null) return change
    path.pop()
  }
  return null
}

const MISSING_ITEM = { problem: 'is a hole in a sparse array', action: 'Use null instead.' }

function changeInFields(value: object, path: (string | number)[], walk: Walk): Change | null {
  const { toJSON } = value as { toJSON?: unknown }
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return { path: [...path], ...BYTES }
  if (typeof toJSON === 'function') return changeByToJson(value, toJSON, path, walk)
  const change = changeByClass(value, walk)
  if (change !== null) return { path: [...path], ...change }
  for (const key of Object.keys(value)) {
    const field = (value as Record<string, unknown>)[key]
    // As in JSON, a field that is undefined is left out.
    if (field === undefined) continue
    path.push(key)
    const inField = changeIn(field, path, walk)
    if (inField !== null) return inField
    path.pop()
  }
  return changeBySymbols(value, path)
}

const BYTES = {
  problem: 'has bytes',
  action: 'Use base64 text, or store the bytes as an artifact and send its key.',
}

function changeByToJson(value: object, toJSON: object, path: (string | number)[], walk: Walk): Change | null {
  const atMs = timeOf(value)
  if (atMs !== null) {
    if (Number.isNaN(atMs)) return { path: [...path], problem: 'is an invalid Date', action: 'Use null instead.' }
    if (walk.dates === null) return { path: [...path], problem: 'is a Date', action: DATE_ACTION }
    if (walk.isInput) walk.dates.push({ path: [...path], atMs })
    return null
  }
  const json = (toJSON as (key: string) => unknown).call(value, String(path.at(-1) ?? ''))
  // JSON does not call toJSON of what toJSON gave.
  if (typeof json === 'object' && json !== null && !Array.isArray(json)) {
    const change = changeByClass(json, walk)
    if (change !== null) return { path: [...path], ...change }
    return changeInFields({ ...json, toJSON: undefined }, path, walk)
  }
  if (json !== undefined) return changeIn(json, path, walk)
  return { path: [...path], problem: 'has a toJSON that gives undefined', action: 'Use a plain object.' }
}

/** Plain objects of any realm have a prototype without a prototype, or none. */
function changeByClass(value: object, { isInput }: Walk): Omit<Change, 'path'> | null {
  const prototype = Object.getPrototypeOf(value) as object | null
  if (prototype === null || Object.getPrototypeOf(prototype) === null) return null
  if (value instanceof Map) return { problem: 'is a Map', action: 'Use Object.fromEntries(map) or [...map].' }
  if (value instanceof Set) return { problem: 'is a Set', action: 'Use [...set].' }
  if (value instanceof Error) return { problem: 'is an Error', action: 'Use its message, or a plain object.' }
  if (!isInput && Object.keys(value).length > 0) return null
  return { problem: `is an instance of ${nameOfClass(prototype)}`, action: 'Use a plain object: { ...value }.' }
}

function nameOfClass(prototype: object): string {
  const maker: unknown = (prototype as { constructor?: unknown }).constructor
  const name = typeof maker === 'function' ? maker.name : ''
  return name === '' ? 'a class' : name
}

function changeBySymbols(value: object, path: Path): Change | null {
  for (const symbol of Object.getOwnPropertySymbols(value)) {
    if (!Object.prototype.propertyIsEnumerable.call(value, symbol)) continue
    return { path: [...path], problem: `has the symbol ${String(symbol)} as a key`, action: 'Use a text as the key.' }
  }
  return null
}

function sentenceOf({ path, problem }: Change): string {
  return `${path.length === 0 ? 'it' : pathText(path)} ${problem}`
}

const PLAIN_KEY = /^[A-Za-z_$][\w$]*$/
const KEY_CHARS_MAX = 100

/** `pages[3].size`, `["a b"].c`. */
function pathText(path: Path): string {
  let text = ''
  for (const part of path) {
    if (typeof part === 'number') text += `[${part}]`
    else if (!PLAIN_KEY.test(part) || part.length > KEY_CHARS_MAX)
      text += `[${JSON.stringify(part.slice(0, KEY_CHARS_MAX))}]`
    else text += text === '' ? part : `.${part}`
  }
  return text
}

/** Null when the text fits. */
function sizeProblem(value: unknown, text: string, bytesMax: number): string | null {
  // A UTF-16 unit has at most three bytes of UTF-8: only a long text must be measured.
  if (text.length * 3 <= bytesMax) return null
  const bytes = Buffer.byteLength(text)
  if (bytes <= bytesMax) return null
  const path = largestPart(value, bytes)
  const most = path.length === 0 ? '' : `; most of them are in ${pathText(path)}`
  return `has ${bytes} bytes as JSON; at most ${bytesMax} are kept${most}`
}

/** The deepest part that has more than half of the bytes. */
function largestPart(whole: unknown, bytes: number): Path {
  const path: (string | number)[] = []
  for (let value = whole; typeof value === 'object' && value !== null; ) {
    const parts: [string | number, unknown][] = Array.isArray(value) ? [...value.entries()] : Object.entries(value)
    const large = parts.find(([, part]) => Buffer.byteLength(JSON.stringify(part) ?? '') > bytes / 2)
    if (large === undefined) break
    path.push(large[0])
    value = large[1]
  }
  return path
}
