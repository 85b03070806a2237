import { Badge } from '../../parts/Marks.tsx'

const MARKS = {
  closed: { tone: 'good', icon: 'complete', title: 'The dependency is called.' },
  open: { tone: 'bad', icon: 'failed', title: 'The dependency is not called.' },
  'half-open': { tone: 'warn', icon: 'unknown', title: 'It is being tried whether the dependency is back.' },
} as const

/** How a breaker stands, in a word. */
export function BreakerMark({ status, isForced }: { status: keyof typeof MARKS; isForced: boolean }) {
  const { tone, icon, title } = MARKS[status]
  return (
    <Badge tone={tone} icon={icon} title={title}>
      {isForced ? `forced ${status}` : status}
    </Badge>
  )
}
