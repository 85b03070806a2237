import '../../styles/segments.css'
import { count, some } from '../../words/numbers.ts'
import { Icon, type IconName } from '../Icon.tsx'

interface Segment {
  name: string
  count: number
  tone: 'good' | 'bad' | 'warn' | 'plain' | 'faint'
  icon: IconName
  href?: string
}

interface Props {
  /** What is divided: 'Jobs of this batch'. */
  label: string
  /** They are the whole: together they are what the total says. */
  segments: readonly Segment[]
  /** One of them: 'job'. */
  unit: string
  /** Also says what there is none of. */
  isFull?: boolean
}

/** A whole and its parts, as a bar for the eye and as numbers that sum. */
export function SegmentBar({ label, segments, unit, isFull = false }: Props) {
  const total = segments.reduce((sum, segment) => sum + segment.count, 0)
  const there = segments.filter((segment) => segment.count > 0)
  return (
    <div class="segments">
      <div class="segments-bar" aria-hidden="true">
        {there.map(({ name, tone, ...segment }) => (
          <span key={name} class={`tone-${tone}`} style={{ flexGrow: segment.count }} />
        ))}
      </div>
      <ul aria-label={label}>
        {(isFull ? segments : there).map((segment) => (
          <li key={segment.name} data-segment={segment.name}>
            <Named {...segment} />
          </li>
        ))}
        <li class="quiet" data-segment="total">
          of {some(total, unit)}
        </li>
      </ul>
    </div>
  )
}

function Named({ name, count: n, tone, icon, href }: Segment) {
  const words = (
    <>
      <Icon name={icon} />
      <span>
        {count(n)} {name}
      </span>
    </>
  )
  const look = n === 0 ? 'quiet' : `tone-${tone}`
  return href === undefined || n === 0 ? (
    <span class={look}>{words}</span>
  ) : (
    <a class={look} href={href}>
      {words}
    </a>
  )
}
