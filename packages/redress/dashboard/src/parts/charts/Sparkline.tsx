import { count } from '../../words/numbers.ts'

const [WIDTH, HEIGHT] = [96, 22]

interface Props {
  counts: readonly number[]
  /** What is counted: 'Failures' */
  of: string
  isWide?: boolean
}

/** So many in each hour, the newest last: a shape to see at a glance, and a sentence for those who do not. */
export function Sparkline({ counts, of, isWide = false }: Props) {
  const most = Math.max(1, ...counts)
  const step = WIDTH / Math.max(1, counts.length)
  const last = counts.at(-1) ?? 0
  return (
    <svg
      class={`sparkline ${isWide ? 'wide' : ''}`}
      preserveAspectRatio="none"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      role="img"
      aria-label={`${of} per hour: at most ${count(most)}, ${count(last)} in this hour`}
    >
      {counts.map((n, at) => {
        const height = n === 0 ? 1 : Math.max(2, (n / most) * HEIGHT)
        return (
          <rect
            key={at}
            x={at * step}
            y={HEIGHT - height}
            width={Math.max(1, step - 1)}
            height={height}
            class={n === 0 ? 'none' : undefined}
          />
        )
      })}
    </svg>
  )
}
