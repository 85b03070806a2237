import { ActivityTally } from '../packages/redress/src/metrics/activity.ts'
import { familiesOf } from '../packages/redress/src/metrics/families.ts'
import { Tally } from '../packages/redress/src/metrics/tally.ts'
import { systemClock } from '../packages/redress/src/runtime/clock.ts'
import { page, table } from './reference-text.ts'

export function metricsPage(): string {
  const tally = new Tally(new ActivityTally(systemClock))
  const families = familiesOf({ tally, reading: () => null, mayAggregate: () => true })
  const rows = families.map(({ name, kind, labels, help }) => [
    `\`${name}\``,
    kind,
    labels.map((label) => `\`${label}\``).join(', '),
    help,
  ])
  return page(
    'Metrics',
    `What \`GET /metrics\` and \`app.metrics.text()\` answer, in the format of Prometheus. How to use them, and alerts to begin
with, are in the [guide](../guides/operate/metrics.md).`,
    table(['metric', 'kind', 'labels', 'what'], rows),
    `Counters and histograms are those of one process: add them up. Gauges, and \`breaker_open_seconds_total\`, are the
store's, and the same in every process: take one of them.`,
  )
}
