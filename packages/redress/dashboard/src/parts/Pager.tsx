import { useLocation } from 'preact-iso'
import { addressOf } from '../words/links.ts'

interface Props {
  /** What the address calls the place where a page begins. */
  param: 'after' | 'cursor'
  /** Where the next page begins; null when this is the last. */
  next: string | number | null
  /** What there are pages of. */
  of: string
}

/** Each page is an address of its own: the browser leads back to the one before. */
export function Pager({ param, next, of }: Props) {
  const { path, query } = useLocation()
  const isFirst = query[param] === undefined
  if (isFirst && next === null) return null
  return (
    <nav class="bar pager" aria-label={`Pages of ${of}`}>
      {!isFirst && (
        <a class="button plain small" href={addressOf(path, { ...query, [param]: undefined })}>
          First page
        </a>
      )}
      {next === null ? (
        <span class="quiet">These are the last.</span>
      ) : (
        <a class="button plain small" href={addressOf(path, { ...query, [param]: next })}>
          Next page
        </a>
      )}
    </nav>
  )
}
