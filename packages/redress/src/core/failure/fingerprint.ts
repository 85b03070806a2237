/**
 * Groups failures of the same cause. What varies from one job to the next (ids, numbers, names in quotes, paths) is
 * taken out of the message, and frames count by function and file only, so that an edit elsewhere in the file does not
 * start a new group. The version in front lets the recipe change without mixing old groups with new ones.
 */
const VERSION = '1'
const MESSAGE_CHARS_MAX = 1000
const FRAMES_MAX = 3

export interface FingerprintParts {
  type: string
  code: string
  message: string
  /** Lines of the stack, in V8's format; other lines are passed over. */
  frames: readonly string[]
}

export function fingerprint({ type, code, message, frames }: FingerprintParts): string {
  return `${VERSION}:${hash64(`${type}\n${code}\n${normalise(message)}\n${ownFrames(frames).join('\n')}`)}`
}

const VARIABLE_PARTS: readonly (readonly [RegExp, string])[] = [
  // The host says which dependency it was; the rest of a URL is mostly ids.
  [/\b([a-z][a-z0-9+.-]{1,20}:\/\/[^\s/?#"'`<>()]*)[^\s"'`<>()]*/gi, '$1'],
  [/"[^"\n]*"|`[^`\n]*`|(?<!\w)'[^'\n]*'(?!\w)/g, '"…"'],
  [/(?<![\w:/.])(?:[A-Za-z]:)?(?:[\\/][\w.@+ -]*[\w.@+-])+[\\/]?/g, '<path>'],
  [/\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b/gi, '#'],
  // Long words with a digit in them are ids: hashes, ULIDs, nanoids.
  [/\b(?=[\w-]{0,64}\d)[\w-]{16,}\b/g, '#'],
  [/\b(?=[a-f]*\d)[0-9a-f]{7,}\b/gi, '#'],
  [/\d+(?:[.,:]\d+)*/g, '#'],
]

function normalise(message: string): string {
  let same = message.slice(0, MESSAGE_CHARS_MAX)
  if (!/[\d"'`/\\]/.test(same)) return same
  for (const [pattern, replacement] of VARIABLE_PARTS) same = same.replace(pattern, replacement)
  return same
}

function ownFrames(frames: readonly string[]): string[] {
  const own: string[] = []
  for (const line of frames) {
    if (!line.startsWith('    at ') || line.includes('node_modules') || line.includes('node:')) continue
    own.push(functionAndFile(line.slice(7)))
    if (own.length === FRAMES_MAX) break
  }
  return own
}

/** `async run (file:///app/src/convert.ts:10:5)` -> `run convert.ts` */
function functionAndFile(frame: string): string {
  const open = frame.lastIndexOf(' (')
  const place = open < 0 ? frame : frame.slice(open + 2)
  const file = place.slice(Math.max(place.lastIndexOf('/'), place.lastIndexOf('\\')) + 1)
  const colon = file.indexOf(':')
  const name = open < 0 ? '' : frame.slice(0, open)
  return `${name.startsWith('async ') ? name.slice(6) : name} ${colon < 0 ? file : file.slice(0, colon)}`
}

/** cyrb53 (public domain, by bryc) with both halves kept. Not cryptographic: it groups, it does not protect. */
function hash64(text: string): string {
  let high = 0xdeadbeef
  let low = 0x41c6ce57
  for (let i = 0; i < text.length; i++) {
    const char = text.charCodeAt(i)
    high = Math.imul(high ^ char, 2_654_435_761)
    low = Math.imul(low ^ char, 1_597_334_677)
  }
  high = Math.imul(high ^ (high >>> 16), 2_246_822_507) ^ Math.imul(low ^ (low >>> 13), 3_266_489_909)
  low = Math.imul(low ^ (low >>> 16), 2_246_822_507) ^ Math.imul(high ^ (high >>> 13), 3_266_489_909)
  return hex32(low) + hex32(high)
}

function hex32(value: number): string {
  return (value >>> 0).toString(16).padStart(8, '0')
}
