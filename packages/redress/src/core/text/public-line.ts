const NOTE_CHARS_MAX = 200
/** 'at run (/srv/app/convert.ts:12:7)' or 'at Array.map (<anonymous>)', on its own line or after others. */
const STACK_FRAME =
  /\s+at (?:[^\n()]{1,200} )?(?:\(?(?:file:|node:|\/|[A-Za-z]:\\)[^\s()]*:\d+:\d+\)?|\(<anonymous>\)|(?<=Promise\.\w+ )\(index \d+\))/g
/** The last frame where the limit cut it off: in its location, or already in the name of its function. */
const CUT_FRAME =
  /\s+at (?:[^\n()]{1,200} )?\(?(?:file:|node:|\/|[A-Za-z]:\\)[^\s()]*$|\s+at [^\n()]{0,200}\(?$|\s+at?$/
const READ_CHARS_MAX = 4 * NOTE_CHARS_MAX

/** A handler's message to the owner of its job, as one line. Code locations are removed. */
export function publicLine(note: unknown): string | null {
  if (typeof note !== 'string') return null
  // Control characters must reach neither a page nor a terminal.
  const line = note
    .slice(0, READ_CHARS_MAX)
    .replace(STACK_FRAME, '')
    .replace(note.length > READ_CHARS_MAX ? CUT_FRAME : '', '')
    .replace(/[\s\p{Cc}]+/gu, ' ')
    .trim()
  if (line === '') return null
  return line.length <= NOTE_CHARS_MAX ? line : `${line.slice(0, NOTE_CHARS_MAX - 1)}…`
}
