import { once } from 'node:events'
import { RedressError } from '../../core/errors.ts'
import { oneLine } from '../../core/text/printable.ts'
import { ownOption, type Parsed, SERVER_OPTIONS } from '../language/parse.ts'
import type { Program } from '../programs.ts'
import { type LiveEvent, openTarget } from '../target/target.ts'
import { type Style, type Terminal, terminalOf } from '../terminal/terminal.ts'

export const events: Program = {
  options: [
    ownOption(
      'topic TOPIC',
      'text',
      'only this topic: job:ID, log:ID, batch:ID, owner:NAME, type:NAME, queue:NAME, ...; repeatable',
      {
        isList: true,
        fallback: 'all',
      },
    ),
    ownOption('after ID', 'text', 'continue after the event with this id; 0 starts with the oldest stored event', {
      fallback: 'from now on',
    }),
    ownOption('limit', 'number', 'stop after this many events'),
    ownOption('jsonl', 'flag', 'print one line of JSON per event'),
    ...SERVER_OPTIONS,
  ],
  places: [],
  examples: ['redress events', 'redress events --topic type:sample.convert --topic owner:ann --jsonl'],
  run: (_command, parsed) => follow(parsed.values),
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const

async function follow(values: Parsed['values']): Promise<number> {
  const limit = values.limit === undefined ? Number.POSITIVE_INFINITY : Number(values.limit)
  if (!(limit >= 1)) throw new RedressError('OPTION_INVALID', `--limit must be at least 1, not ${values.limit}.`)
  // A stream has no end to close a bracket at: --json is one line for each, too.
  const isJson = values.jsonl === true || values.json === true
  const terminal = terminalOf(process.stdout, process.env, Date.now())
  const topics = typeof values.topic === 'string' ? values.topic.split(',') : []
  const target = await openTarget(values)
  const stop = new AbortController()
  const onSignal = () => stop.abort()
  for (const signal of SIGNALS) process.once(signal, onSignal)
  const say = (text: string) => void (isJson || process.stderr.write(`${text}\n`))
  try {
    const stream = target.follow({
      topics,
      after: typeof values.after === 'string' ? values.after : null,
      signal: stop.signal,
      onReady: () => say('Following events; Ctrl-C stops.'),
      onTrouble: say,
    })
    let shown = 0
    for await (const event of stream) {
      const line = isJson ? JSON.stringify(event) : inWords(event, terminal)
      // A reader that is slower than the events decides how fast they are read.
      if (!process.stdout.write(`${line}\n`)) await once(process.stdout, 'drain')
      if (++shown >= limit) break
    }
    return 0
  } finally {
    for (const signal of SIGNALS) process.off(signal, onSignal)
    stop.abort()
    await target.stop()
  }
}

const KEYS_KNOWN: ReadonlySet<string> = new Set(['at', 'kind', 'jobId', 'subject', 'type', 'attempt'])

function inWords({ event, data }: LiveEvent, terminal: Terminal): string {
  const facts = (typeof data === 'object' && data !== null ? data : {}) as Record<string, unknown>
  const { at = '', jobId, subject, type, attempt } = facts
  const about = [jobId ?? subject, type, attempt ? `attempt ${attempt}` : null].filter(Boolean)
  const more = Object.entries(facts)
    .filter(([key, value]) => !KEYS_KNOWN.has(key) && value !== null && value !== '')
    .map(([key, value]) => `${key} ${typeof value === 'string' ? value : JSON.stringify(value)}`)
  const said = [...about, more.join(', ')].filter((part) => part !== '').map((part) => oneLine(String(part)))
  return [oneLine(String(at)), terminal.paint(styleOf(event), oneLine(event).padEnd(18)), ...said].join('  ').trimEnd()
}

function styleOf(event: string): Style {
  if (/failed|orphan|gap/.test(event)) return 'bad'
  if (/complete/.test(event)) return 'good'
  return /retry/.test(event) ? 'waiting' : 'plain'
}
