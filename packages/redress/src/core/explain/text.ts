import { stageInWords } from '../failure/stage.ts'
import { type Action, DECISIONS } from '../job/actions.ts'
import type { Budget, DelayInputs, Reasons } from '../policy/decide.ts'
import { formatMs } from '../text/duration.ts'
import { optionNames, refuseUnknownOptions } from '../text/options.ts'
import { oneLine, printable } from '../text/printable.ts'
import type { FailureView } from '../views/job.ts'
import type { ExplainedStep, Explanation, Tone } from './explain.ts'

export interface RenderOptions {
  /** Lines are broken to fit. */
  columns?: number
  paint?: (tone: Tone | 'quiet' | 'strong', text: string) => string
  /** A command to paste for what may be done. */
  commandFor?: (action: Action) => string | null
}

const OPTIONS = optionNames<RenderOptions>({ columns: true, paint: true, commandFor: true })
const COLUMNS_DEFAULT = 100
const DETAIL_CHARS_MAX = 300
const DETAIL_LINES_MAX = 4
const STACK_FRAME = /^\s+at /
const STDERR_LINES_MAX = 3
const STEPS_MAX = 40
const LABEL_CHARS = 9
const INDENT = '  '

/** Renders the answer of `app.jobs.explain(id)` as text for a person. */
export function renderExplanation(explanation: Explanation, options: RenderOptions = {}): string {
  refuseUnknownOptions('renderExplanation()', options, OPTIONS)
  const { columns = COLUMNS_DEFAULT, paint = (_tone, text) => text, commandFor = () => null } = options
  const { verdict, tone, alike, steps, actions } = explanation
  const [headline = '', ...rest] = sentencesOnTwoLines(verdict)
  // How it began and how it ended; a job with a thousand attempts has its history in `jobs events`.
  const left = Math.max(0, steps.length - STEPS_MAX)
  const begin = steps.slice(0, left === 0 ? steps.length : STEPS_MAX / 4)
  const end = left === 0 ? [] : steps.slice(begin.length + left)
  const sinceWidth = Math.max(...steps.map((step) => `+${formatMs(step.sinceSubmittedMs)}`.length), 0)
  // A deletion helps nothing; other changes are worth a line only where they are possible.
  const remedies = actions.filter(({ name, allowed }) => DECISIONS.has(name) || (allowed && name !== 'delete'))
  const nameWidth = Math.max(...remedies.map(({ name }) => name.length), 0) + 2
  const lines = [
    ...wrap(headline, columns).map((line) => paint(tone, line)),
    ...rest.flatMap((line) => wrap(line, columns)),
    ...(alike === null ? [] : wrap(alike.text, columns)),
    '',
    ...subjectOf(explanation).map((line) => paint('quiet', line)),
    '',
    ...begin.flatMap((step) => [...renderStep(step, sinceWidth, columns, paint), '']),
    ...(left === 0 ? [] : [paint('quiet', `${INDENT}... ${left} more of the same history ...`), '']),
    ...end.flatMap((step) => [...renderStep(step, sinceWidth, columns, paint), '']),
    paint('strong', 'What can be done now'),
    ...remedies.flatMap((action) => renderAction(action, nameWidth, columns, paint, commandFor(action))),
  ]
  return `${lines.join('\n')}\n`
}

/** The verdict proper, then what follows from it. */
function sentencesOnTwoLines(verdict: readonly string[]): string[] {
  const upTo = verdict.findIndex((sentence) => /^[A-Z][A-Z0-9_]*: /.test(sentence)) + 1
  const split = upTo === 0 ? 1 : upTo
  return [verdict.slice(0, split), verdict.slice(split)]
    .filter((part) => part.length > 0)
    .map((part) => oneLine(part.join(' ')))
}

function subjectOf({ type, id, submittedAt, owner, retriedFrom, retriedAs, ageMs }: Explanation): string[] {
  const owned = owner === null ? '' : ` for ${oneLine(owner)}`
  const origin = retriedFrom === null ? [] : [`made from ${retriedFrom}`]
  const successor = retriedAs === null ? [] : [`retried as ${retriedAs}`]
  return [`${type} ${id}`, `submitted ${submittedAt}, ${formatMs(ageMs)} ago${owned}`, ...origin, ...successor]
}

type Paint = NonNullable<RenderOptions['paint']>

function renderStep(step: ExplainedStep, sinceWidth: number, columns: number, paint: Paint): string[] {
  const margin = INDENT + ' '.repeat(sinceWidth) + INDENT
  const since = `+${formatMs(step.sinceSubmittedMs)}`.padStart(sinceWidth)
  const ran = step.ranMs === null ? '' : `, ran ${formatMs(step.ranMs)}`
  const title = wrap(oneLine(step.text + ran), columns - margin.length)
  const details = [
    ...step.notes.map((note) => labelled('', note.text, note.tone)),
    ...step.stages.map((stage, i) => labelled(i === 0 ? 'stages' : '', stageInWords(stage), 'plain')),
    ...(step.failure === null ? [] : failureLines(step.failure)),
    ...(step.ended === null ? [] : [labelled('then', step.ended.text, step.ended.tone)]),
    ...(step.failure === null ? [] : [labelled('by', reckoning(step.failure.decision), 'quiet')]),
  ]
  return [
    ...title.map((line, i) => {
      const text = paint(step.attempt === null ? step.tone : 'strong', line)
      return i === 0 ? `${INDENT}${paint('quiet', since)}${INDENT}${text}` : margin + text
    }),
    ...details.flatMap(({ label, text, tone }) =>
      wrap(text, columns - margin.length - LABEL_CHARS).map(
        (line, i) => margin + paint('quiet', (i === 0 ? label : '').padEnd(LABEL_CHARS)) + paint(tone, line),
      ),
    ),
  ]
}

interface Labelled {
  label: string
  text: string
  tone: Tone | 'quiet'
}

const labelled = (label: string, text: string, tone: Tone | 'quiet'): Labelled => ({ label, text: oneLine(text), tone })

function failureLines(failure: FailureView): Labelled[] {
  const { code, phase, layer, rule, detail, context } = failure
  const lines = [labelled('failed', `${code} during ${phase} (layer: ${layer})`, 'bad')]
  lines.push(labelled('known by', rule, 'plain'))
  const said = printable(detail)
    .split('\n')
    .filter((line) => line.trim() !== '' && !STACK_FRAME.test(line))
    .slice(0, DETAIL_LINES_MAX)
  lines.push(...said.map((line, i) => labelled(i === 0 ? 'said' : '', clip(line, DETAIL_CHARS_MAX), 'plain')))
  const facts = factsOf(context)
  if (facts !== '') lines.push(labelled('facts', facts, 'plain'))
  if (typeof context.stderrTail === 'string') {
    const tail = context.stderrTail.trim().split('\n').slice(-STDERR_LINES_MAX)
    lines.push(...tail.map((line, i) => labelled(i === 0 ? 'stderr' : '', clip(line, DETAIL_CHARS_MAX), 'plain')))
  }
  return lines
}

/** The plain values of the context; what is longer is in the failure itself. */
function factsOf(context: Readonly<Record<string, unknown>>): string {
  return Object.entries(context)
    .filter(([name, value]) => name !== 'stderrTail' && ['string', 'number', 'boolean'].includes(typeof value))
    .map(([name, value]) => `${name} ${clip(oneLine(String(value)), 80)}`)
    .join(', ')
}

function reckoning({ rule, budget, delay }: Reasons): string {
  const parts = rule === budget.name ? [spending(budget)] : [rule, spending(budget)]
  if (delay !== undefined) parts.push(waiting(delay))
  return parts.join('; ')
}

function spending({ name, before, after, max }: Budget): string {
  return before === after ? `${name} stays ${before} of ${max}` : `${name} ${before} -> ${after} of ${max}`
}

function waiting(delay: DelayInputs): string {
  switch (delay.source) {
    case 'none':
      return 'no retry.backoff, so no wait'
    case 'error.retryAfter': {
      const bound = delay.askedMs > delay.maxMs ? `, and retry.retryAfterMax allows ${formatMs(delay.maxMs)}` : ''
      return `the error asked for ${formatMs(delay.askedMs)}${bound}`
    }
    case 'retry.backoff': {
      const { kind, baseMs, jitterMs, failuresBefore } = delay
      const drawn = jitterMs === 0 ? '' : ` ${jitterMs < 0 ? '-' : '+'} ${formatMs(Math.abs(jitterMs))} jitter`
      return `wait ${formatMs(Math.max(0, baseMs + jitterMs))} = ${formatMs(baseMs)} (${kind}, step ${failuresBefore + 1})${drawn}`
    }
  }
}

function renderAction(
  { name, allowed, why }: Action,
  nameWidth: number,
  columns: number,
  paint: Paint,
  command: string | null,
): string[] {
  const head = `${INDENT}${name.padEnd(nameWidth)}${allowed ? 'yes' : 'no '}${INDENT}`
  const lines = wrap(why, columns - head.length).map((line, i) => {
    const start = i === 0 ? paint(allowed ? 'good' : 'quiet', head) : ' '.repeat(head.length)
    return start + (allowed ? line : paint('quiet', line))
  })
  return allowed && command !== null ? [...lines, ' '.repeat(head.length) + paint('strong', command)] : lines
}

const clip = (text: string, charsMax: number): string =>
  text.length <= charsMax ? text : `${text.slice(0, charsMax - 1)}…`

/** Breaks at spaces; a word that is longer than the line stays whole, so that it can be copied. */
function wrap(text: string, columns: number): string[] {
  const width = Math.max(20, columns)
  const lines: string[] = []
  for (const word of text.split(' ')) {
    const last = lines.at(-1)
    if (last === undefined || last.length + 1 + word.length > width) lines.push(word)
    else lines[lines.length - 1] = `${last} ${word}`
  }
  return lines
}
