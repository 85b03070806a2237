/** The reference pages, made from the tables that the program itself uses. `npm run docs` writes them. */
import { EXIT_CODES } from '../packages/redress/src/cli/language/help.ts'
import { ERRORS } from '../packages/redress/src/core/errors.ts'
import { ENGINE_CODES, type Taxonomy } from '../packages/redress/src/core/failure/taxonomy.ts'
import { EDGES } from '../packages/redress/src/core/job/states.ts'
import { API_PAGES } from './reference-api.ts'
import { commandDetails, commandsPage } from './reference-commands.ts'
import { environmentPage } from './reference-environment.ts'
import { eventMeanings, reportMeanings, subjectMeanings } from './reference-events.ts'
import { exportsPage } from './reference-exports.ts'
import { httpPage } from './reference-http.ts'
import { metricsPage } from './reference-metrics.ts'
import { policyPage } from './reference-policy.ts'
import { requirementsPage } from './reference-requirements.ts'
import { page, table } from './reference-text.ts'

export const PAGES: Readonly<Record<string, () => string>> = {
  'packages/redress/src/cli/language/command-details.ts': commandDetails,
  ...API_PAGES,
  'docs/reference/commands.md': commandsPage,
  'docs/reference/environment.md': environmentPage,
  'docs/reference/errors.md': errorsPage,
  'docs/reference/events.md': eventsPage,
  'docs/reference/exports.md': exportsPage,
  'docs/reference/failure-codes.md': failureCodesPage,
  'docs/reference/http.md': httpPage,
  'docs/reference/metrics.md': metricsPage,
  'docs/reference/policy.md': policyPage,
  'docs/requirements.md': requirementsPage,
}

function errorsPage(): string {
  const rows = Object.entries(ERRORS).map(([code, { http, exit, action }]) => [`\`${code}\``, http, exit, action])
  return page(
    'Errors',
    `Every way Redress refuses something. A \`RedressError\` has the \`code\`, a \`message\` that names the case, and the
\`action\`; HTTP answers and the command line use the same table. These are refusals of a call. Why a *job* did not
succeed is a failure code: see [failure codes](failure-codes.md).`,
    table(['code', 'HTTP', 'exit', 'what to do'], rows),
    '## Exit codes',
    table(
      ['exit', 'means'],
      Object.entries(EXIT_CODES).map(([exit, meaning]) => [exit, meaning]),
    ),
  )
}

function failureCodesPage(): string {
  const rows = Object.entries(ENGINE_CODES as Taxonomy).map(([code, { fault, retry, message, waiting }]) => [
    `\`${code}\``,
    fault,
    code === 'UNKNOWN' ? 'as `retry.unknown` says' : retry,
    message,
    waiting === undefined || waiting === message ? 'the same' : waiting,
  ])
  return page(
    'Failure codes of the engine',
    `A job type declares its own codes with \`failureCodes({ ... })\`. These are the ones the engine uses by itself; a row of
the same name in your table replaces the copy and the retry class.`,
    table(['code', 'fault', 'retry', 'shown when failed', 'shown while a retry waits'], rows),
    `\`retry\` is what the code says about trying again: \`never\`, \`transient\` (up to the policy's budget) or
\`dead-letter\` (at once and for good).`,
  )
}

function eventsPage(): string {
  return page(
    'Events',
    `The history of a job: append-only, written in the transaction of the change it describes, and complete, so that it
replays to the state of the job. Only a claim is stored with the next event of its attempt. See the history with
\`redress jobs events JOB\`.`,
    table(
      ['kind', 'means'],
      Object.entries(eventMeanings).map(([kind, meaning]) => [`\`${kind}\``, meaning]),
    ),
    '## What a handler reports',
    `These events of a job are on the [feed](../guides/operate/live-events.md), not in its history: they change nothing. See
the lines with \`redress jobs logs JOB\`.`,
    table(
      ['event', 'means'],
      Object.entries(reportMeanings).map(([kind, meaning]) => [`\`job.${kind}\``, meaning]),
    ),
    '## What happens to other things',
    `They are told in the same sequence as the events of jobs (see the [guide](../guides/operate/live-events.md)), as
\`batch.settled\` and so on.`,
    table(
      ['event', 'means'],
      Object.entries(subjectMeanings).flatMap(([thing, kinds]) =>
        Object.entries(kinds).map(([kind, meaning]) => [`\`${thing}.${kind}\``, meaning]),
      ),
    ),
    '## States and edges',
    `A job is \`queued\`, \`processing\`, \`complete\`, \`failed\` or \`cancelled\`. These edges exist; a policy may take some
away, and the store refuses whatever is left out. With \`forwardOnly\` no backward edge is left.`,
    table(
      ['from', 'to', 'by', 'backward'],
      EDGES.map(({ from, to, by, backward }) => [from, to, by, backward ? 'yes' : '']),
    ),
  )
}
