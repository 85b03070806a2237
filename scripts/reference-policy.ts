import { CONTRADICTIONS } from '../packages/redress/src/core/policy/checks.ts'
import { policy } from '../packages/redress/src/core/policy/policy.ts'
import { policyFields } from '../packages/redress/src/core/policy/text.ts'
import { page, table } from './reference-text.ts'

/** What each field may be and what it means; the default is the program's own. */
const MEANINGS: Readonly<Record<string, [values: string, meaning: string]>> = {
  'retry.max': ['1 to 1000', 'The number of failures after which the job fails for good. 1 = never retried.'],
  'retry.perCode': ['`{ CODE: n }`', 'A smaller limit for single codes.'],
  'retry.backoff': [
    '`table([...])`, `exponential(base, { factor, cap })`',
    'How long to wait before the next attempt. `jitter` is a share (`"20%"`) or an added time (`"5s"`). Without a backoff, the next attempt starts at once.',
  ],
  'retry.unknown': ['`never`, `transient`, `dead-letter`', 'The retry class of a failure that no rule recognizes.'],
  'retry.retryAfterMax': [
    'duration',
    'The longest accepted Retry-After. A retry waits for the longer of Retry-After and the backoff.',
  ],
  'retry.budget': [
    '`{ ratio, perMinute }` or null',
    'Limits retries to `ratio` (0.1) of the first attempts, plus `perMinute` (60). Further retries wait.',
  ],
  'manualRetry.mode': [
    '`in-place`, `new-job`, `off`',
    'Whether a retry by a person requeues the same job, makes a new job from it, or is refused.',
  ],
  'manualRetry.budget': ['`reset`, `keep`', 'Whether an in-place retry begins with a fresh budget.'],
  'orphan.action': [
    '`report`, `requeue`, `fail`',
    'What happens to a job whose worker is lost: a person decides, the job is requeued, or it fails.',
  ],
  'orphan.budget': ['`free`, `consume`', 'Whether a lost worker counts as a failure.'],
  'orphan.maxReclaims': [
    '1 to 1000',
    'How often a job may lose its worker. After that it fails as `QUARANTINED`, because it may be what kills the workers.',
  ],
  'orphan.stuckAfter': [
    'duration or null',
    'An attempt that runs longer than this is reclaimed, even if its worker is alive. Only with `requeue`.',
  ],
  'lease.ttl': ['duration, at least 1s', 'How long a lease lasts unless the worker renews it.'],
  'lease.startTimeout': ['duration or null', 'How long a claimed job may take to start.'],
  'timeout.attempt': [
    'duration or null',
    'How long one attempt may last. If `timeout.total` is shorter, its value is the default.',
  ],
  'timeout.total': [
    'duration or null',
    'How long the job may take in total, including waits. A job that is still queued then fails when it is claimed.',
  ],
  deadLetter: [
    '`none`, `flag`, `queue`',
    'Whether a job that fails for good is only marked (`flag`), or becomes a dead letter that can be replayed (`queue`).',
  ],
  reject: [
    '`refuse`, `record`',
    'Whether a refused submission only gets an error, or is also recorded as a failed job.',
  ],
  shutdown: [
    '`requeue`, `fail`',
    'What happens to a running job when its worker must stop. With `forwardOnly` the default is `fail`.',
  ],
  audit: ['`transactional`, `write-ahead`', 'Whether the event is written with the change, or made durable before it.'],
  errors: [
    '`terminal`, `latest`',
    'Whether an error is shown only when the job has failed, or also while it waits for a retry.',
  ],
  aggregates: ['true, false', 'Whether rates and percentages may be shown.'],
  cancel: ['true, false', 'Whether a person may cancel.'],
  deny: [
    '`hide`, `forbid`',
    'What an owner gets who asks for the job of another owner: not found (404) or forbidden (403).',
  ],
  forwardOnly: ['true, false', 'The job never returns to the queue. The database enforces it.'],
  'retention.complete': ['duration or null', 'How long complete jobs are kept. null = forever.'],
  'retention.failed': ['duration or null', 'How long failed jobs are kept.'],
  'retention.cancelled': ['duration or null', 'How long cancelled jobs are kept.'],
  'retention.deadLetters': ['duration or null', 'How long dead letters and their jobs are kept.'],
  breaker: [
    '`{ guards, mode, ... }` or null',
    'The dependency that the breaker guards, by name, and its settings: `mode` (`hold` or `fail-fast`), `windowCalls` (20), `window` (2m), `minCalls` (10), `ratio` (0.5), `cooldown` (30s), `halfOpenProbes` (1), `probesToClose` (3), `ramp` (30s), `code`: see the guide on breakers.',
  ],
  'concurrency.max': [
    '1 to 1000000 or null',
    'How many jobs of the type may run at the same time, in all processes together.',
  ],
  'concurrency.perKey': ['1 to 1000000 or null', 'The same for jobs with the same limit key.'],
  rate: [
    '`{ max, per, burst, scope }` or null',
    'Limits how many attempts start: `max` in each `per` (1s), with at most `burst` (default `max`) at once. `scope` is the whole `type` or each limit `key`.',
  ],
  'backlog.max': ['1 to 1000000 or null', 'How many jobs of the type may be queued. Further submissions are refused.'],
  rollup: ['`all-or-nothing`, `partial`, `any-permanent`', 'The outcome of a batch when some of its jobs failed.'],
  'notify.failed': ['names of channels', 'Channels that get a notice when a job fails for good.'],
  'notify.orphaned': ['names of channels', 'Channels that get a notice when a job becomes an orphan.'],
  'notify.settled': ['names of channels', 'Channels that get a notice when a batch settles.'],
  'notify.window': ['duration', 'Failures with the same cause give one notice in this time. 0 = one notice each.'],
  locked: ['true, false', 'A declaration that weakens the stored policy is refused.'],
}

export function policyPage(): string {
  const fields = policyFields(policy())
  const gone = Object.keys(MEANINGS).filter((name) => !fields.some((field) => field.name === name))
  if (gone.length > 0) throw new Error(`the reference explains ${gone.join(', ')}, which no policy has`)
  const rows = fields.map(({ name: field, value }) => {
    const [values, meaning] = MEANINGS[field] ?? [undefined, undefined]
    if (values === undefined || meaning === undefined) throw new Error(`the reference does not say what ${field} means`)
    return [`\`${field}\``, values, value === '{}' ? 'none' : value, meaning]
  })
  return page(
    'Policy',
    `A policy decides what happens after a failure of one job type. Every field has a safe default: a job is tried once,
and if its worker is lost, a person decides. Durations are written \`'250ms'\`, \`'5s'\`, \`'1m30s'\`, \`'2h'\`, \`'7d'\`, or as a number
of milliseconds. Try one out with \`redress policy simulate FILE --failures CODE,CODE,ok\`.`,
    table(['field', 'values', 'default', 'meaning'], rows),
    `Short forms: \`manualRetry: 'in-place'\` sets \`manualRetry.mode\`, \`orphan: 'requeue'\` sets \`orphan.action\`, and
\`concurrency: 5\` sets \`concurrency.max\`.`,
    '## Fields that contradict each other',
    'A policy with two contradicting fields is refused when it is declared.',
    table(
      ['field', 'and', 'because'],
      CONTRADICTIONS.map(({ fields: [one, other], why }) => [`\`${one}\``, `\`${other}\``, why]),
    ),
  )
}
