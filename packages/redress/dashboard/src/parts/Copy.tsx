import { useState } from 'preact/hooks'
import { announce } from './announce.ts'
import { Icon } from './Icon.tsx'

const SAID_MS = 2_000

/** A button that puts a text into the clipboard. `what` completes 'Copy …'. */
export function CopyButton({ text, what, children }: { text: string; what: string; children?: string }) {
  const [isDone, setDone] = useState(false)
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text)
      setDone(true)
      announce(`Copied ${what}.`)
      setTimeout(() => setDone(false), SAID_MS)
    } catch {
      // A page that is not served over https or from this machine has no clipboard.
      window.prompt(`Copy ${what}:`, text)
    }
  }
  return (
    <button type="button" class="plain small" onClick={() => void copy()} title={`Copy ${what}`}>
      <Icon name={isDone ? 'complete' : 'copy'} />
      {children ?? <span class="unseen">Copy {what}</span>}
    </button>
  )
}

/** An id, short enough for a line; the whole of it is copied. */
export function Id({ id, href }: { id: string; href?: string }) {
  const short = id.length > 13 ? `${id.slice(0, 8)}…${id.slice(-4)}` : id
  return (
    <span class="id">
      {href === undefined ? (
        <code title={id}>{short}</code>
      ) : (
        <a href={href} title={id}>
          {short}
        </a>
      )}
    </span>
  )
}
