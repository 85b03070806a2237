import type { Fault } from '../failure/failure.ts'
import { optionNames, refuseUnknownOptions } from '../text/options.ts'
import { oneLine, printable } from '../text/printable.ts'
import { clip } from '../text/redact.ts'
import type { Notice, NoticeBatch, NoticeFailure, NoticeJob } from './notice.ts'

/** A notice as text. */
export interface NoticeText {
  subject: string
  text: string
}

/** The options of `renderNotice()`. */
export interface NoticeTextOptions {
  /** Where a person can look it up: '/jobs/ID' or '/batches/ID' is added. */
  link?: string
}

const OPTIONS = optionNames<NoticeTextOptions>({ link: true })
const SUBJECT_CHARS_MAX = 200
const LINE_CHARS_MAX = 1_000
const DATA_CHARS_MAX = 20_000

/** A notice in plain words, for people who know nothing of Redress: what, whose fault, what can be done. */
export function renderNotice(notice: Notice, options: NoticeTextOptions = {}): NoticeText {
  refuseUnknownOptions('renderNotice()', options, OPTIONS)
  const { link } = options
  const { subject, lines, path } = WORDS[notice.kind](notice as never)
  const at = link === undefined || path === null ? [] : ['', `${link.replace(/\/+$/, '')}${path}`]
  const text = [...lines, ...repeated(notice), ...at].map((line) => clip(line, LINE_CHARS_MAX)).join('\n')
  return { subject: clip(oneLine(subject), SUBJECT_CHARS_MAX), text: `${text}\n` }
}

interface Words {
  subject: string
  lines: string[]
  /** The page about it. */
  path: string | null
}

type Of<Kind extends Notice['kind']> = Extract<Notice, { kind: Kind }>

const WORDS: { [Kind in Notice['kind']]: (notice: Of<Kind>) => Words } = {
  failed: ({ job, failure, repeats }) => ({
    subject: `${job.type} failed: ${failure.code}${repeats > 0 ? ` (and ${repeats} more)` : ''}`,
    lines: [
      `A job of type ${oneLine(job.type)} has failed for good. Nothing more will happen by itself.`,
      '',
      `What:   ${oneLine(failure.code)}: ${oneLine(failure.message)}`,
      `Fault:  ${WHOSE[failure.fault]}`,
      ...aboutJob(job, failure),
      ...whatCanBeDone(job),
    ],
    path: `/jobs/${encodeURIComponent(job.id)}`,
  }),
  orphaned: ({ job, worker, repeats }) => ({
    subject: `${job.type} lost its worker${repeats > 0 ? ` (and ${repeats} more)` : ''}`,
    lines: [
      `A job of type ${oneLine(job.type)} was being worked on, and its worker is gone. Nobody knows how far it came.`,
      'It is left as it is until a person decides.',
      '',
      `Worker: ${oneLine(worker)}`,
      ...aboutJob(job, null),
      ...whatCanBeDone(job),
    ],
    path: `/jobs/${encodeURIComponent(job.id)}`,
  }),
  settled: ({ batch }) => ({
    subject: `${batch.name || batch.id}: ${OUTCOME[batch.state] ?? batch.state}`,
    lines: aboutBatch(batch),
    path: `/batches/${encodeURIComponent(batch.id)}`,
  }),
  app: ({ name, subject, data }) => ({
    subject,
    lines: [oneLine(subject), '', `Kind:   ${oneLine(name)}`, ...dataLines(data)],
    path: null,
  }),
  test: ({ actor, reason }) => ({
    subject: 'Test notice',
    lines: [
      `${oneLine(actor)} sent this to see whether notices arrive here: ${oneLine(reason)}`,
      '',
      'Nothing has failed, and nothing is to be done.',
    ],
    path: null,
  }),
}

const WHOSE: Readonly<Record<Fault, string>> = {
  caller: 'the input: the same input will fail again',
  dependency: 'something that the work depends on',
  system: 'the machine or the program that does the work',
  code: 'the code that does the work',
  operator: 'whoever runs this installation: it is theirs to mend, or was their decision',
  unknown: 'not known',
}

function aboutJob({ id, owner, batch, attempts, maxAttempts, createdAt }: NoticeJob, failure: NoticeFailure | null) {
  const tried =
    attempts === 0
      ? 'it was never begun'
      : failure === null
        ? `attempt ${attempts}`
        : `tried ${attempts === 1 ? 'once' : `${attempts} times`}, of at most ${Math.max(attempts, maxAttempts)}`
  return [
    `Job:    ${id} (${tried})`,
    `Since:  ${createdAt}`,
    ...(owner === null ? [] : [`Owner:  ${oneLine(owner)}`]),
    ...(batch === null ? [] : [`Batch:  ${oneLine(batch.name || batch.id)}`]),
  ]
}

function whatCanBeDone({ actions }: NoticeJob): string[] {
  if (actions.length === 0) return ['', 'Nothing can be done about this job itself.']
  return ['', 'What can be done:', ...actions.map(({ name, why }) => `- ${name}: ${oneLine(why)}`)]
}

const OUTCOME: Readonly<Record<string, string>> = {
  complete: 'everything is done',
  partial: 'done in part',
  failed: 'failed',
  cancelled: 'cancelled',
  expired: 'expired',
}

function aboutBatch({ id, name, owner, state, total, complete, failed, permanent, cancelled }: NoticeBatch): string[] {
  const counts = [
    `${complete} complete`,
    `${failed} failed${permanent > 0 ? ` (${permanent} of them for good)` : ''}`,
    ...(cancelled > 0 ? [`${cancelled} cancelled`] : []),
  ]
  return [
    `${oneLine(name || id)} has ended: ${OUTCOME[state] ?? oneLine(state)}.`,
    '',
    `Jobs:   ${total}: ${counts.join(', ')}`,
    `Batch:  ${id}`,
    ...(owner === null ? [] : [`Owner:  ${oneLine(owner)}`]),
  ]
}

function dataLines(data: unknown): string[] {
  if (data === null || data === undefined) return []
  if (typeof data === 'string') return ['', ...printable(clip(data, DATA_CHARS_MAX)).split('\n')]
  return ['', ...printable(clip(JSON.stringify(data, null, 2), DATA_CHARS_MAX)).split('\n')]
}

function repeated({ repeats, since }: Notice): string[] {
  if (repeats === 0) return []
  const more = repeats === 1 ? 'One more' : `And ${repeats} more`
  return ['', `${more} of the same cause came since the last notice${since === null ? '' : `, at ${since}`}.`]
}
