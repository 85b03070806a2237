import type { Distribution, Family, Sample } from './exposition.ts'
import type { StoreReading } from './metrics.ts'
import { type ByCode, DURATION_BOUNDS, type Durations, type Tally, type TypeTally } from './tally.ts'

interface Sources {
  tally: Tally
  /** What the store said when it was last asked; null when it could not be. */
  reading: () => StoreReading | null
  /** False where a policy allows counts and nothing made from them (P60): then there is no distribution either. */
  mayAggregate: (type: string) => boolean
}

/** Every metric there is. Labels are job types, codes, queues and stages: all of them named in code, none by a job. */
export function familiesOf({ tally, reading, mayAggregate }: Sources): Family[] {
  const types = () => [...tally.types]

  const counter = (name: string, help: string, value: (of: TypeTally) => number): Family => ({
    kind: 'counter',
    name,
    help,
    labels: ['type'],
    read: () => types().map(([type, of]) => ({ labels: { type }, value: value(of) })),
  })
  const counterByCode = (name: string, help: string, counts: (of: TypeTally) => ByCode): Family => ({
    kind: 'counter',
    name,
    help,
    labels: ['type', 'error_code'],
    read: () =>
      types().flatMap(([type, of]) =>
        [...counts(of)].map(([error_code, value]) => ({ labels: { type, error_code }, value })),
      ),
  })
  const gauge = (name: string, help: string, labels: string[], read: (from: StoreReading) => Sample[]): Family => ({
    kind: 'gauge',
    name,
    help,
    labels,
    read: () => {
      const from = reading()
      return from === null ? [] : read(from)
    },
  })

  return [
    counter(
      'jobs_created_total',
      'Jobs submitted by this process. A duplicate that found its twin is not counted.',
      (of) => of.created,
    ),
    counter('jobs_completed_total', 'Jobs completed by this process.', (of) => of.completed),
    counter('jobs_cancelled_total', 'Jobs cancelled by this process.', (of) => of.cancelled),
    counterByCode(
      'jobs_failed_total',
      'Jobs that failed for good: by policy, by a person, for a lost worker, or refused and recorded.',
      (of) => of.failed,
    ),
    counterByCode('retries_scheduled_total', 'Failed attempts that are to be tried again.', (of) => of.retried),
    counterByCode('dead_letters_total', 'Jobs set aside as dead letters.', (of) => of.deadLetters),
    counter(
      'manual_retry_total',
      'Failed jobs that a person sent back, made anew or replayed.',
      (of) => of.manualRetries,
    ),
    counter('leases_lost_total', 'Attempts whose lease was gone before their outcome counted.', (of) => of.leasesLost),
    counter('jobs_reclaimed_total', 'Jobs taken back from workers that were gone.', (of) => of.reclaimed),
    counter(
      'event_loop_blocked_seconds_total',
      'How long handlers blocked the event loop of this process, in blocks of half a second and more.',
      (of) => of.loopBlockedSeconds,
    ),
    {
      kind: 'histogram',
      name: 'job_processing_duration_seconds',
      help: 'How long handlers ran, whatever came of it.',
      labels: ['type'],
      read: () => types().flatMap(([type, of]) => (mayAggregate(type) ? [distribution({ type }, of.processing)] : [])),
    },
    {
      kind: 'histogram',
      name: 'stage_duration_seconds',
      help: 'How long each try of a stage took, whatever came of it: the calls to a gateway, for instance.',
      labels: ['type', 'stage'],
      read: () =>
        types().flatMap(([type, of]) =>
          mayAggregate(type) ? [...of.stages].map(([stage, took]) => distribution({ type, stage }, took)) : [],
        ),
    },
    {
      kind: 'histogram',
      name: 'store_write_duration_seconds',
      help: 'How long this process waited until the store had written what it was given.',
      labels: ['write'],
      read: () => [...tally.writes].map(([write, took]) => distribution({ write }, took)),
    },
    {
      kind: 'gauge',
      name: 'store_up',
      help: 'Whether the store answered; 0: then its gauges are missing.',
      labels: [],
      read: () => up(reading()),
    },
    gauge('queue_depth', 'Jobs that are to be done, by whether they are due.', ['queue', 'type', 'state'], (from) =>
      from.depths.flatMap(({ queue, type, ready, waiting }) => [
        { labels: { queue, type, state: 'ready' }, value: ready },
        { labels: { queue, type, state: 'waiting' }, value: waiting },
      ]),
    ),
    gauge('jobs_active', 'Jobs in the hands of a worker.', ['type'], (from) =>
      from.depths.map(({ type, active }) => ({ labels: { type }, value: active })),
    ),
    gauge('orphans', 'Jobs whose worker is gone and that wait for a person.', ['type'], (from) =>
      from.depths.map(({ type, orphaned }) => ({ labels: { type }, value: orphaned })),
    ),
    gauge(
      'oldest_ready_seconds',
      'Age of the job that has been ready for longest; 0 when none is.',
      ['queue'],
      (from) => from.oldestReady.map(({ queue, seconds }) => ({ labels: { queue }, value: seconds })),
    ),
    gauge('queue_paused', 'Whether a queue is paused.', ['queue'], (from) =>
      from.oldestReady.map(({ queue, isPaused }) => ({ labels: { queue }, value: Number(isPaused) })),
    ),
    gauge('breaker_state', 'How a breaker stands: 1 for the state it is in.', ['breaker', 'state'], (from) =>
      from.breakers.flatMap(({ name, status }) =>
        (['closed', 'open', 'half-open'] as const).map((state) => ({
          labels: { breaker: name, state },
          value: Number(state === status),
        })),
      ),
    ),
    {
      kind: 'counter',
      name: 'breaker_open_seconds_total',
      help: 'How long a breaker has been open in all, as the store has it: the same in every process.',
      labels: ['breaker'],
      read: () =>
        (reading()?.breakers ?? []).map(({ name, openMs }) => ({ labels: { breaker: name }, value: openMs / 1000 })),
    },
  ]
}

const distribution = (labels: Record<string, string>, { counts, sum }: Durations): Distribution => ({
  labels,
  bounds: DURATION_BOUNDS,
  counts,
  sum,
})

const up = (reading: StoreReading | null): Sample[] => [{ labels: {}, value: reading === null ? 0 : 1 }]
