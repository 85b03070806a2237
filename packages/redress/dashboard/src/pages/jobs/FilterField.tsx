import type { RefObject } from 'preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { Icon } from '../../parts/Icon.tsx'
import { type KnownValues, type Suggestion, suggestionsFor } from '../../words/completion.ts'

interface Props {
  /** What is looked for now, as the address has it. */
  line: string
  known: KnownValues
  field: RefObject<HTMLInputElement>
  isWrong: boolean
  onApply: (line: string) => void
}

/** The line of qualifiers, with what could be written next: the combobox pattern of ARIA 1.2. */
export function FilterField({ line, known, field, isWrong, onApply }: Props) {
  const [text, setText] = useState(line)
  const [caret, setCaret] = useState<number | null>(null)
  const [isOpen, setOpen] = useState(false)
  const [active, setActive] = useState(-1)
  // What was applied here comes back as an address, perhaps while somebody types on: only another one brings another line.
  const applied = useRef(line)
  useLayoutEffect(() => {
    if (line === applied.current) return
    applied.current = line
    setText(line)
  }, [line])
  const apply = (written: string): void => {
    applied.current = written
    onApply(written)
  }
  useLayoutEffect(() => {
    if (caret !== null && field.current === document.activeElement) field.current?.setSelectionRange(caret, caret)
  }, [text])

  const suggestions = isOpen ? suggestionsFor(text, caret ?? text.length, known) : []
  const write = (written: string, at: number): void => {
    setText(written)
    setCaret(at)
    setActive(-1)
  }
  const choose = ({ line: written, caret: at, isWhole }: Suggestion): void => {
    write(written, at)
    if (isWhole) apply(written.trim())
  }
  const step = (by: number): void => {
    setOpen(true)
    const places = suggestions.length + 1
    setActive(((active + 1 + by + places) % places) - 1)
  }
  const onKeyDown = (event: KeyboardEvent): void => {
    const chosen = suggestions[active]
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') step(event.key === 'ArrowDown' ? 1 : -1)
    else if (event.key === 'Enter' && chosen !== undefined) choose(chosen)
    else if (event.key === 'Escape' && suggestions.length > 0) setOpen(false)
    else if (event.key === 'Escape') field.current?.blur()
    else return
    event.preventDefault()
  }
  const follow = (): void => setCaret(field.current?.selectionStart ?? null)

  return (
    <search class="filter">
      <form
        onSubmit={(event) => {
          event.preventDefault()
          setOpen(false)
          apply(text.trim())
        }}
      >
        <label htmlFor="filter" class="unseen">
          Find jobs
        </label>
        <Icon name="search" />
        <input
          id="filter"
          ref={field}
          type="text"
          role="combobox"
          aria-expanded={suggestions.length > 0}
          aria-controls="filter-suggestions"
          aria-autocomplete="list"
          aria-activedescendant={active >= 0 && active < suggestions.length ? `suggestion-${active}` : undefined}
          aria-describedby="filter-problems"
          aria-invalid={isWrong}
          placeholder="status:failed type:pdf.convert age:<1h, or an id"
          autoComplete="off"
          autoCapitalize="off"
          spellcheck={false}
          value={text}
          onInput={({ currentTarget: { value, selectionStart } }) => {
            write(value, selectionStart ?? value.length)
            setOpen(true)
          }}
          onKeyDown={onKeyDown}
          onKeyUp={follow}
          onClick={() => {
            follow()
            setOpen(true)
          }}
          onBlur={() => setOpen(false)}
        />
        {text !== '' && (
          <button
            type="button"
            class="plain small"
            title="Clear"
            onClick={() => {
              write('', 0)
              apply('')
              field.current?.focus()
            }}
          >
            <Icon name="close" />
            <span class="unseen">Clear</span>
          </button>
        )}
        <button type="submit" class="small">
          Find
        </button>
      </form>
      <div
        id="filter-suggestions"
        role="listbox"
        aria-label="What could be written here"
        class="suggestions"
        hidden={suggestions.length === 0}
      >
        {suggestions.map((suggestion, at) => (
          <div
            key={suggestion.text}
            id={`suggestion-${at}`}
            role="option"
            tabIndex={-1}
            aria-selected={at === active}
            // The field keeps the focus and gets the keys, or the list would be gone before anything is chosen.
            onMouseDown={(event) => event.preventDefault()}
            onMouseUp={() => choose(suggestion)}
          >
            <code>{suggestion.text}</code> <span class="quiet">{suggestion.meaning}</span>
          </div>
        ))}
      </div>
    </search>
  )
}
