import type { OutputOf } from '../../../../src/operations/table.ts'
import { some } from '../../words/numbers.ts'

type QueueOfType = OutputOf<'queues.list'>['queues'][number]
type Worker = OutputOf<'workers.list'>['workers'][number]

/** Types whose jobs could go and that no working worker runs. */
export function idleQueues(queues: readonly QueueOfType[], workers: readonly Worker[]): QueueOfType[] {
  const run = new Set(workers.filter(({ state }) => state === 'working').flatMap(({ types }) => types))
  return queues.filter(({ type, queued, waiting, paused }) => queued > waiting && paused === null && !run.has(type))
}

/** Nothing fails and nothing happens: the quietest of all troubles. */
export function NoWorkers({ queues }: { queues: readonly QueueOfType[] }) {
  if (queues.length === 0) return null
  return (
    <div class="notice bad" role="alert">
      <p>
        <strong>Jobs wait, and no worker runs them.</strong> Start a program that declares these types:
      </p>
      <ul>
        {queues.map(({ type, queue, queued, waiting }) => (
          <li key={type}>
            <code>{type}</code> in queue {queue}: {some(queued - waiting, 'job')} ready
          </li>
        ))}
      </ul>
    </div>
  )
}
