/** What a process counts for Prometheus, as `app.metrics` gives it: `redress/metrics`. */
export type { Registry } from './exposition.ts'
export type { Metrics } from './metrics.ts'
