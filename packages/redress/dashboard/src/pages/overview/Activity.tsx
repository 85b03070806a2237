import { useMemo } from 'preact/hooks'
import type { Fault } from '../../../../src/core/failure/failure.ts'
import type { OutputOf } from '../../../../src/operations/table.ts'
import { useQuery } from '../../api/query.ts'
import { Chart } from '../../parts/charts/Chart.tsx'
import { Shown } from '../../parts/States.tsx'
import { Table } from '../../parts/Table.tsx'
import { Clock } from '../../parts/Time.tsx'
import { FAULT_WORDS } from '../../words/faults.ts'
import { count } from '../../words/numbers.ts'
import { duration } from '../../words/time.ts'

type Minutes = OutputOf<'activity.show'>['minutes']

const FAULTS = Object.keys(FAULT_WORDS) as Fault[]

const FAILURES = {
  isStacked: true,
  isWhole: true,
  format: count,
  series: FAULTS.map((fault) => ({ label: FAULT_WORDS[fault].word, color: `--fault-${fault}` })),
}
const WAITS = {
  isStacked: false,
  isWhole: false,
  format: duration,
  series: [
    { label: 'half of them (p50)', color: '--accent' },
    { label: 'nearly all (p95)', color: '--warn', dash: [6, 4] },
  ],
}
const THROUGHPUT = {
  isStacked: true,
  isWhole: true,
  format: count,
  series: [
    { label: 'complete', color: '--good' },
    { label: 'failed', color: '--bad' },
  ],
}

/** How it went in the last hour, minute by minute. */
export function Activity() {
  const activity = useQuery('activity.show', { minutes: 60 }, { everyMs: 15_000 })
  return (
    <section aria-labelledby="activity">
      <h2 id="activity">The last hour</h2>
      <Shown query={activity}>
        {({ minutes, notCounted }) => (
          <>
            <Charts minutes={minutes} />
            <Figures minutes={minutes} />
            {notCounted.length > 0 && <p class="quiet">Not summed up, by their policy: {notCounted.join(', ')}.</p>}
          </>
        )}
      </Shown>
    </section>
  )
}

function Charts({ minutes }: { minutes: Minutes }) {
  const times = useMemo(() => minutes.map(({ at }) => Date.parse(at) / 1000), [minutes])
  const failures = useMemo(
    () => [times, ...FAULTS.map((fault) => minutes.map(({ faults }) => faults[fault]))],
    [minutes],
  )
  const waits = useMemo(
    () => [times, minutes.map(({ waitP50Ms }) => waitP50Ms), minutes.map(({ waitP95Ms }) => waitP95Ms)],
    [minutes],
  )
  const throughput = useMemo(
    () => [times, minutes.map(({ complete }) => complete), minutes.map(({ failed }) => failed)],
    [minutes],
  )
  return (
    <div class="charts">
      <Chart label="Failed attempts per minute, by who is at fault" shape={FAILURES} data={failures} />
      <Chart label="Wait in the queue" shape={WAITS} data={waits} />
      <Chart label="Jobs that ended per minute" shape={THROUGHPUT} data={throughput} />
    </div>
  )
}

/** The same in figures, for those who do not see the charts or want to know exactly. */
function Figures({ minutes }: { minutes: Minutes }) {
  const busy = minutes.filter(({ complete, failed, cancelled, faults }) =>
    [complete, failed, cancelled, ...Object.values(faults)].some((n) => n > 0),
  )
  return (
    <details>
      <summary>In figures</summary>
      {busy.length === 0 ? (
        <p>Nothing ended in the last hour.</p>
      ) : (
        <Table
          label="The minutes of the last hour in which something ended"
          rows={busy.toReversed()}
          keyOf={({ at }) => at}
          columns={[
            { head: 'Minute', isTitle: true, cell: ({ at }) => <Clock at={at} /> },
            { head: 'Complete', isNumber: true, cell: ({ complete }) => count(complete) },
            { head: 'Failed', isNumber: true, cell: ({ failed }) => count(failed) },
            ...FAULTS.map((fault) => ({
              head: FAULT_WORDS[fault].word,
              isNumber: true,
              cell: ({ faults }: Minutes[number]) => count(faults[fault]),
            })),
            { head: 'Wait p50', isNumber: true, cell: ({ waitP50Ms: ms }) => (ms === null ? '–' : duration(ms)) },
            { head: 'Wait p95', isNumber: true, cell: ({ waitP95Ms: ms }) => (ms === null ? '–' : duration(ms)) },
          ]}
        />
      )}
    </details>
  )
}
