import { asValue } from './qualifiers.ts'

/** A filter with a name. */
export interface View {
  name: string
  line: string
}

const KEPT = 'redress.views'
export const NAME_CHARS_MAX = 60

/** Those that everybody has. `who` is whose jobs are 'mine'; null for whoever sees only their own. */
export const builtInViews = (who: string | null): View[] => [
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
export function savedViews(): View[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(KEPT) ?? '[]')
    return Array.isArray(kept) ? kept.filter(isView) : []
  } catch {
    return []
  }
}

/** The newest of a name counts. */
export const withView = (views: readonly View[], view: View): View[] => [
  ...views.filter(({ name }) => name !== view.name),
  view,
]

export const keepViews = (views: readonly View[]): void => localStorage.setItem(KEPT, JSON.stringify(views))
