import { useLayoutEffect, useState } from 'preact/hooks'
import { useLocation } from 'preact-iso'
import '../styles/narrow.css'
import { addressOf } from '../words/links.ts'

export interface FilterFormField {
  /** As the address calls it. */
  name: string
  label: string
  /** Text in one line, unless it is said otherwise. A flag is '1' or not there. */
  kind?: 'json' | 'flag'
  choices?: readonly { value: string; label: string }[]
  /** What one may write, shown while nothing is written. */
  hint?: string
  suggestions?: readonly string[]
  help?: string
}

interface Props {
  label: string
  fields: readonly FilterFormField[]
}

/** Another filter has other pages. */
const PAGING = ['after', 'cursor']

/** Fields that live in the address: what is set there can be shared, and is still there after an act. */
export function FilterForm({ label, fields }: Props) {
  const { path, query, route } = useLocation()
  const set = (name: string, value: string): void => {
    if ((query[name] ?? '') === value) return
    const rest = Object.fromEntries(Object.entries(query).filter(([one]) => !PAGING.includes(one)))
    route(addressOf(path, { ...rest, [name]: value }))
  }
  const isSet = fields.some(({ name }) => query[name])
  const cleared = Object.fromEntries(
    Object.entries(query).filter(([one]) => !PAGING.includes(one) && !fields.some(({ name }) => name === one)),
  )
  return (
    <form class="narrow" aria-label={label} onSubmit={(event) => event.preventDefault()}>
      {fields.map((field) => (
        <Field
          key={field.name}
          field={field}
          value={query[field.name] ?? ''}
          onSet={(value) => set(field.name, value)}
        />
      ))}
      {isSet && (
        <a class="button plain small" href={addressOf(path, cleared)}>
          Clear
        </a>
      )}
    </form>
  )
}

interface FieldProps {
  field: FilterFormField
  value: string
  onSet: (value: string) => void
}

function Field({ field: { name, label, kind, choices, hint, suggestions, help }, value, onSet }: FieldProps) {
  // What is being typed is kept here: the page is drawn anew whenever something happens on the server.
  const [text, setText] = useState(value)
  // Before the paint: an effect after it would overwrite what a person typed in between.
  useLayoutEffect(() => setText(value), [value])
  const id = `narrow-${name}`
  const typing = {
    ...{ id, name, value: text, placeholder: hint, spellcheck: false },
    onInput: (event: { currentTarget: { value: string } }) => setText(event.currentTarget.value),
    onChange: (event: { currentTarget: { value: string } }) => onSet(event.currentTarget.value.trim()),
  }
  if (kind === 'flag') {
    return (
      <label class="flag" htmlFor={id}>
        <input
          id={id}
          name={name}
          type="checkbox"
          checked={value === '1'}
          onChange={(event) => onSet(event.currentTarget.checked ? '1' : '')}
        />
        {label}
      </label>
    )
  }
  return (
    <label htmlFor={id} class={kind === 'json' ? 'wide' : undefined}>
      {label}
      {choices !== undefined ? (
        <select id={id} name={name} value={value} onChange={(event) => onSet(event.currentTarget.value)}>
          {choices.map((choice) => (
            <option key={choice.value} value={choice.value}>
              {choice.label}
            </option>
          ))}
        </select>
      ) : kind === 'json' ? (
        <textarea class="code" rows={4} {...typing} />
      ) : (
        <input type="text" autoComplete="off" list={suggestions && `${id}-list`} {...typing} />
      )}
      {suggestions !== undefined && (
        <datalist id={`${id}-list`}>
          {suggestions.map((suggestion) => (
            <option key={suggestion} value={suggestion} />
          ))}
        </datalist>
      )}
      {help !== undefined && <span class="help">{help}</span>}
    </label>
  )
}
