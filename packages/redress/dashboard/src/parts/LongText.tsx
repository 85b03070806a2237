import { useMemo, useState } from 'preact/hooks'
import { CopyButton } from './Copy.tsx'

const CHARS_SHOWN = 10_000
/** Pieces that are out of sight cost the browser nothing. */
const PIECE_CHARS = 8_000

const SIZE = new Intl.NumberFormat('en-US', { maximumFractionDigits: 1 })
const sizeOf = (text: string): string =>
  text.length < 100_000
    ? `${SIZE.format(text.length / 1_000)} thousand characters`
    : `${SIZE.format(text.length / 1e6)} million characters`

/** Cut at the ends of lines where there are some, and never through a character. Each with where it begins. */
function piecesOf(text: string, charsMax: number): { at: number; piece: string }[] {
  const pieces: { at: number; piece: string }[] = []
  for (let at = 0; at < text.length; ) {
    const end = endOf(text, at, charsMax)
    pieces.push({ at, piece: text.slice(at, end) })
    at = end
  }
  return pieces
}

function endOf(text: string, at: number, charsMax: number): number {
  const end = at + charsMax
  if (end >= text.length) return text.length
  const line = text.lastIndexOf('\n', end)
  if (line > at) return line + 1
  return /[\ud800-\udbff]/.test(text.charAt(end - 1)) ? end - 1 : end
}

/** What can be scrolled must be reached by the keyboard, and say what it is. */
const scrolled = (what: string) => ({ tabIndex: 0, role: 'group', 'aria-label': what }) as const

interface Props {
  text: string
  /** What it is: 'the input'. */
  what: string
}

/** What a job was given or said: text, however long it is and whatever is in it. */
export function LongText({ text, what }: Props) {
  const [isWhole, setWhole] = useState(false)
  const isLong = text.length > CHARS_SHOWN
  const pieces = useMemo(
    () => (isWhole ? piecesOf(text, PIECE_CHARS) : piecesOf(text, CHARS_SHOWN).slice(0, 1)),
    [text, isWhole],
  )
  return (
    <div class="long-text">
      <pre {...scrolled(what)}>
        {pieces.map(({ at, piece }) => (
          <span key={at}>{piece}</span>
        ))}
      </pre>
      <p class="buttons">
        <CopyButton text={text} what={what}>
          Copy
        </CopyButton>
        {isLong && (
          <button type="button" class="plain small" onClick={() => setWhole(!isWhole)}>
            {isWhole ? 'Show less' : `Show all, ${sizeOf(text)}`}
          </button>
        )}
        {isLong && !isWhole && <span class="quiet">It goes on.</span>}
      </p>
    </div>
  )
}

/** A value as its JSON. */
export function LongValue({ value, what }: { value: unknown; what: string }) {
  const text = useMemo(() => JSON.stringify(value, null, 2) ?? '', [value])
  return <LongText text={text} what={what} />
}
