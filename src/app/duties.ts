import type { Duty } from '../worker/duty.ts'
import { batchExpiry } from './batches.ts'
import { bulkReplay } from './bulk-replay.ts'
import type { Channels } from './channels.ts'
import type { Dependencies } from './dependencies.ts'
import { failureCounting } from './failure-counting.ts'
import type { AppHost } from './host.ts'
import { Metrics } from './metrics/metrics.ts'
import { pauseEnding } from './pause-ending.ts'
import { ScheduleTicker } from './schedule-ticker.ts'
import type { Schedules } from './schedules.ts'

/** What every worker of an app does beside running jobs. */
export function dutiesOf(
  host: AppHost,
  schedules: Schedules,
  channels: Channels,
  dependencies: Dependencies,
  metrics: Metrics,
): Duty[] {
  return [
    pauseEnding(host),
    batchExpiry(host),
    bulkReplay(host),
    failureCounting(host),
    Metrics.duty(metrics),
    new ScheduleTicker(host, schedules),
    ...channels.duties(),
    dependencies,
  ]
}
