import { CONTRADICTIONS } from '../packages/redress/src/core/policy/checks.ts'
import { policy } from '../packages/redress/src/core/policy/policy.ts'
import { policyFields } from '../packages/redress/src/core/policy/text.ts'
import { page, table } from './reference-text.ts'

/** What each field may be and what it means; the default is the program's own. */
const MEANINGS: Readonly<Record<string, [values: string, meaning: string]>> = {
  'retry.max': [
    '1 to 1000',
    'Failures that end the job, so also the attempts it gets when every one fails. 1 = never retried.',
  ],
  'retry.perCode': ['`{ CODE: n }`', 'A smaller limit for some codes.'],
  'retry.backoff': [
    '`table([...])`, `exponential(base, { factor, cap })`',
    'How long to wait before the next attempt; `jitter` is a part (`"20%"`) or an added time (`"5s"`). Without it: at once.',
  ],
  'retry.unknown': ['`never`, `transient`, `dead-letter`', 'What a throw that no rule recognises is taken for.'],
  'retry.retryAfterMax': [
    'duration',
    "The longest wait that an error's own Retry-After may ask for. The longer of it and the backoff counts.",
  ],
  'retry.budget': [
    '`{ ratio, perMinute }` or null',
    'Retries may be at most `ratio` (0.1) of first dispatches and `perMinute` (60) beside that; more of them wait.',
  ],
  'manualRetry.mode': [
    '`in-place`, `new-job`, `off`',
    'What a retry by a person does: the same job again, a new job made from it, or nothing.',
  ],
  'manualRetry.budget': ['`reset`, `keep`', 'Whether an in-place retry begins with a fresh budget.'],
  'orphan.action': [
    '`report`, `requeue`, `fail`',
    'What becomes of a job whose worker is gone: a person decides, another worker takes it, or it fails.',
  ],
  'orphan.budget': ['`free`, `consume`', 'Whether a lost worker counts as a failure.'],
  'orphan.maxReclaims': ['1 to 1000', 'How often a job may lose its worker before it is set aside as what kills them.'],
  'orphan.stuckAfter': [
    'duration or null',
    'An attempt that still runs after this long is taken back as if its worker were lost, also from a live worker. Only with `requeue`.',
  ],
  'lease.ttl': ['duration, at least 1s', "How long a worker's right to a job lasts unless it is renewed."],
  'lease.startTimeout': ['duration or null', 'How long a claimed job may take to begin.'],
  'timeout.attempt': [
    'duration or null',
    'How long one attempt may last. Follows `timeout.total` where that is shorter.',
  ],
  'timeout.total': [
    'duration or null',
    'How long the job may take in all, waits included. One that is still queued then fails when its turn comes.',
  ],
  deadLetter: [
    '`none`, `flag`, `queue`',
    'Whether a job that fails for good is marked, or kept with its payload for replay.',
  ],
  reject: ['`refuse`, `record`', 'Whether a refused submission is only answered, or also recorded as a failed job.'],
  shutdown: [
    '`requeue`, `fail`',
    'What becomes of a running job when its worker must stop. `fail` where `forwardOnly`.',
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
    'What somebody who asks for a job of another owner is told: that there is none (404), or that it is not theirs (403).',
  ],
  forwardOnly: ['true, false', 'No way back to the queue at all; the database itself refuses one.'],
  'retention.complete': ['duration or null', 'How long complete jobs are kept. null = for ever.'],
  'retention.failed': ['duration or null', 'How long failed jobs are kept.'],
  'retention.cancelled': ['duration or null', 'How long cancelled jobs are kept.'],
  'retention.deadLetters': ['duration or null', 'How long dead letters are kept; their jobs stay as long.'],
  breaker: [
    '`{ guards, mode, ... }` or null',
    'Guards a dependency by name. `mode` (`hold` or `fail-fast`), `windowCalls` (20), `window` (2m), `minCalls` (10), `ratio` (0.5), `cooldown` (30s), `halfOpenProbes` (1), `probesToClose` (3), `ramp` (30s), `code`: see the guide on breakers.',
  ],
  'concurrency.max': ['1 to 1000000 or null', 'How many jobs of the type may run at once, over all processes.'],
  'concurrency.perKey': ['1 to 1000000 or null', 'The same for jobs with the same limit key.'],
  rate: [
    '`{ max, per, burst, scope }` or null',
    'Dispatches per time: `max` in `per` (1s), at most `burst` (max) at once, of the `type` or of each limit `key`.',
  ],
  'backlog.max': ['1 to 1000000 or null', 'How many jobs of the type may wait; more are refused at submission.'],
  rollup: [
    '`all-or-nothing`, `partial`, `any-permanent`',
    'What a batch of such jobs comes to when some of them failed.',
  ],
  'notify.failed': ['names of channels', 'Who is told of a job that failed for good.'],
  'notify.orphaned': ['names of channels', 'Who is told of a job whose worker is gone and for which a person decides.'],
  'notify.settled': ['names of channels', 'Who is told of a batch that settled.'],
  'notify.window': ['duration', 'What has the same cause is told once in this time. 0 = each on its own.'],
  locked: ['true, false', 'Nothing at runtime can weaken it: a weaker declaration is refused.'],
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
    `Data that answers "what next?" for one job type. What is not said takes the safest default: a job is tried once, and
of a lost worker a person is told. Durations are written \`'250ms'\`, \`'5s'\`, \`'1m30s'\`, \`'2h'\`, \`'7d'\`, or as a number
of milliseconds. Try one out with \`redress policy simulate FILE --failures CODE,CODE,ok\`.`,
    table(['field', 'values', 'default', 'meaning'], rows),
    `\`manualRetry\` and \`orphan\` may be given as one word: \`manualRetry: 'in-place'\`; \`concurrency: 5\` is its \`max\`.`,
    '## What contradicts',
    'A policy with two fields that cannot both mean what they say is refused when it is declared.',
    table(
      ['field', 'and', 'because'],
      CONTRADICTIONS.map(({ fields: [one, other], why }) => [`\`${one}\``, `\`${other}\``, why]),
    ),
  )
}
