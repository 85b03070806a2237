import { useState } from 'preact/hooks'
import { isOwner, me } from '../../api/session.ts'
import { announce } from '../../parts/announce.ts'
import { Icon } from '../../parts/Icon.tsx'
import { listHref } from '../../words/links.ts'
import { asValue } from '../../words/qualifiers.ts'

/** Filters with a name: some that everybody has, and those that were saved in this browser. */
export function Views({ line, canSave }: { line: string; canSave: boolean }) {
  const [saved, setSaved] = useState(savedViews)
  const [isNaming, setNaming] = useState(false)
  const known = me.value
  const builtIn = builtInViews(known === null || isOwner() ? null : (known.account ?? known.name))
  const keep = (views: View[]): void => {
    setSaved(views)
    keepViews(views)
  }
  const isNew = canSave && ![...builtIn, ...saved].some((view) => view.line === line)
  return (
    <div class="bar views">
      <nav aria-label="Views">
        <ul class="chips">
          {builtIn.map((view) => (
            <li key={view.name}>
              <ViewLink view={view} line={line} />
            </li>
          ))}
          {saved.map((view) => (
            <li key={`saved ${view.name}`}>
              <ViewLink view={view} line={line} />
              <button
                type="button"
                class="plain small"
                title={`Remove the view ${view.name}`}
                onClick={() => {
                  keep(saved.filter(({ name }) => name !== view.name))
                  announce(`Removed the view ${view.name}.`)
                }}
              >
                <Icon name="close" />
                <span class="unseen">Remove the view {view.name}</span>
              </button>
            </li>
          ))}
        </ul>
      </nav>
      {isNaming ? (
        <NameForm
          onLeave={() => setNaming(false)}
          onName={(name) => {
            keep(withView(saved, { name, line }))
            setNaming(false)
            announce(`Saved the view ${name} in this browser.`)
          }}
        />
      ) : (
        isNew && (
          <button type="button" class="plain small" onClick={() => setNaming(true)}>
            Save as a view
          </button>
        )
      )}
    </div>
  )
}

const ViewLink = ({ view, line }: { view: View; line: string }) => (
  <a class="chip" href={listHref(view.line)} title={view.line} aria-current={view.line === line ? 'true' : undefined}>
    {view.name}
  </a>
)

function NameForm({ onName, onLeave }: { onName: (name: string) => void; onLeave: () => void }) {
  return (
    <form
      class="buttons"
      onSubmit={(event) => {
        event.preventDefault()
        const name = String(new FormData(event.currentTarget).get('name')).trim()
        if (name !== '') onName(name)
      }}
    >
      <label htmlFor="view-name">Name of the view</label>
      <input
        id="view-name"
        name="name"
        required
        maxLength={NAME_CHARS_MAX}
        autoComplete="off"
        // It was asked for a moment ago.
        ref={(field) => field?.focus()}
      />
      <button type="submit" class="small">
        Save
      </button>
      <button type="button" class="plain small" onClick={onLeave}>
        Leave it
      </button>
    </form>
  )
}

/** A filter with a name. */
export interface View {
  name: string
  line: string
}

const KEPT = 'redress.views'
const NAME_CHARS_MAX = 60

/** Those that everybody has. `who` is whose jobs are 'mine'; null for whoever sees only their own. */
const builtInViews = (who: string | null): View[] => [
  { name: 'All', line: '' },
  { name: 'Failed today', line: 'status:failed age:<24h' },
  { name: 'Waiting', line: 'status:queued' },
  { name: 'Running', line: 'status:processing' },
  ...(who === null ? [] : [{ name: 'Mine', line: `owner:${asValue(who)}` }]),
]

const isView = (value: unknown): value is View => {
  const { name, line } = (value ?? {}) as Partial<Record<keyof View, unknown>>
  return typeof name === 'string' && typeof line === 'string'
}

/** Those of this browser; whatever else is stored there is left out. */
function savedViews(): View[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(KEPT) ?? '[]')
    return Array.isArray(kept) ? kept.filter(isView) : []
  } catch {
    return []
  }
}

/** The newest of a name counts. */
const withView = (views: readonly View[], view: View): View[] => [
  ...views.filter(({ name }) => name !== view.name),
  view,
]

const keepViews = (views: readonly View[]): void => localStorage.setItem(KEPT, JSON.stringify(views))
