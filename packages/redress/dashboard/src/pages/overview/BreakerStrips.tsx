import type { OutputOf } from '../../../../src/operations/table.ts'
import { about, useQuery } from '../../api/query.ts'
import { now } from '../../words/time.ts'
import { BreakerMark } from '../breakers/BreakerMark.tsx'
import { type StatusPeriod, statusPeriods } from '../breakers/status-periods.ts'

type Breaker = OutputOf<'breakers.list'>['breakers'][number]

const SHOWN_MS = 3_600_000

/** How each breaker stood in the last hour. Those that are not closed come first and say why. */
export function BreakerStrips() {
  const { data } = useQuery('breakers.list', {}, { follows: about('breaker'), everyMs: 10_000 })
  if (data === null || data.breakers.length === 0) return null
  const sorted = data.breakers.toSorted((a, b) => Number(a.status === 'closed') - Number(b.status === 'closed'))
  return (
    <section aria-labelledby="breakers">
      <h2 id="breakers">Breakers</h2>
      <ul class="strips">
        {sorted.map((breaker) => (
          <Strip key={breaker.name} breaker={breaker} />
        ))}
      </ul>
    </section>
  )
}

function Strip({ breaker: { name, status, forced, why, heldJobs } }: { breaker: Breaker }) {
  const { data } = useQuery('breakers.show', { name }, { follows: about(`breaker:${name}`), everyMs: 30_000 })
  const periods = data === null ? [] : statusPeriods(data.history, status, now.value - SHOWN_MS, now.value)
  return (
    <li>
      <p class="buttons">
        <a href="/breakers">{name}</a>
        <BreakerMark status={status} isForced={forced !== null} />
        {status !== 'closed' && <span class="said">{why}</span>}
        {heldJobs > 0 && <span>{heldJobs} held</span>}
      </p>
      {periods.length > 0 && (
        <div class="strip" role="img" aria-label={`The last hour: ${wordsOf(periods)}`}>
          {periods.map(({ status: stood, fromMs, toMs }) => (
            <span key={fromMs} class={`stood-${stood}`} style={{ flexGrow: toMs - fromMs }} />
          ))}
        </div>
      )}
    </li>
  )
}

const wordsOf = (periods: readonly StatusPeriod[]): string =>
  periods.map(({ status, fromMs, toMs }) => `${status} for ${Math.round((toMs - fromMs) / 60_000)} min`).join(', ')
