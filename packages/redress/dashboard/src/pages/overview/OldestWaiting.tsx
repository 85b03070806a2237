import type { OutputOf } from '../../../../src/operations/table.ts'
import { Badge } from '../../parts/Marks.tsx'
import { Table } from '../../parts/Table.tsx'
import { jobsHref } from '../../words/links.ts'
import { count } from '../../words/numbers.ts'
import { duration } from '../../words/time.ts'

type QueueOfType = OutputOf<'queues.list'>['queues'][number]

/** The age of the oldest says more than a depth: a long queue may be fast, and a short one stuck. */
export function OldestWaiting({ queues }: { queues: readonly QueueOfType[] }) {
  const byQueue = Map.groupBy(queues, ({ queue }) => queue)
  const rows = [...byQueue]
    .map(([queue, types]) => ({
      queue,
      ready: types.reduce((sum, { queued, waiting }) => sum + queued - waiting, 0),
      oldestMs: Math.max(-1, ...types.map(({ oldestReadyMs }) => oldestReadyMs ?? -1)),
      isPaused: types.some(({ paused }) => paused !== null),
    }))
    .filter(({ ready }) => ready > 0)
    .sort((a, b) => b.oldestMs - a.oldestMs)
  if (rows.length === 0) return null
  return (
    <section aria-labelledby="waiting">
      <h2 id="waiting">Waiting longest</h2>
      <Table
        label="The oldest ready job of each queue"
        rows={rows}
        keyOf={({ queue }) => queue}
        columns={[
          { head: 'Queue', isTitle: true, cell: ({ queue }) => <a href="/queues">{queue}</a> },
          { head: 'Oldest ready', isNumber: true, cell: ({ oldestMs }) => (oldestMs < 0 ? '–' : duration(oldestMs)) },
          {
            head: 'Ready',
            isNumber: true,
            cell: ({ queue, ready }) => <a href={jobsHref({ queue, status: 'queued' })}>{count(ready)}</a>,
          },
          {
            head: 'State',
            cell: ({ isPaused }) =>
              isPaused ? (
                <Badge tone="warn" icon="pause">
                  paused
                </Badge>
              ) : (
                <Badge tone="good" icon="complete">
                  running
                </Badge>
              ),
          },
        ]}
      />
    </section>
  )
}
