import { about, useQuery } from '../../api/query.ts'
import { some } from '../../words/numbers.ts'

const COUNTED_MAX = 100

export function OrphansWaiting() {
  const { data } = useQuery('orphans.list', { limit: COUNTED_MAX }, { follows: about('job'), everyMs: 15_000 })
  if (data === null || data.jobs.length === 0) return null
  const types = [...new Set(data.jobs.map(({ type }) => type))].join(', ')
  return (
    <section aria-labelledby="orphans">
      <h2 id="orphans">Orphans</h2>
      <p class="notice warn">
        <a href="/orphans">
          {some(data.jobs.length, 'job')}
          {data.nextCursor !== null && ' or more'}
        </a>{' '}
        {data.jobs.length === 1 ? 'has lost its worker and waits' : 'have lost their worker and wait'} for a person to
        decide: {types}.
      </p>
    </section>
  )
}
