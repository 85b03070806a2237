import type { DeliveryView, NoticeView } from '../../operations/notices/notices.ts'
import type { OutputOf } from '../../operations/table.ts'
import { columns } from '../terminal/columns.ts'
import { age, type Style } from '../terminal/terminal.ts'
import type { Renderers, Rendering } from './rendering.ts'

function notices({ notices: shown, nextCursor }: OutputOf<'notices.list'>, rendering: Rendering): string {
  const { terminal } = rendering
  if (nextCursor !== null) rendering.hint(`More: add --cursor ${nextCursor}`)
  const reasons = new Set(shown.flatMap(({ waiting }) => waiting.map(({ why }) => why)))
  for (const why of reasons) rendering.hint(`Waiting: ${why}.`)
  return columns(
    shown,
    [
      { title: 'NOTICE', of: (notice) => notice.seq, isNumber: true },
      { title: 'KIND', of: (notice) => notice.kind },
      { title: 'ABOUT', of: (notice) => notice.subject, charsMin: 12 },
      { title: 'CHANNELS', of: (notice) => notice.channels.join(', '), charsMin: 8 },
      { title: 'STATE', of: stateOf, style: ({ state }) => (state === 'relayed' ? 'good' : 'waiting') },
      { title: 'REPEATS', of: (notice) => notice.repeats, isNumber: true },
      { title: 'AGE', of: (notice) => age(notice.at, terminal), isNumber: true },
    ],
    terminal,
  )
}

const stateOf = ({ state, waiting }: NoticeView): string =>
  state === 'relayed' ? state : `waiting for ${waiting.map(({ channel }) => channel).join(', ')}`

function deliveries(output: OutputOf<'notices.deliveries'>, rendering: Rendering): string {
  const { terminal } = rendering
  const { deliveries: shown, nextCursor } = output
  if (nextCursor !== null) rendering.hint(`More: add --cursor ${nextCursor}`)
  const failed = shown.find(({ state }) => state === 'failed')
  if (failed !== undefined) {
    rendering.hint(`Retry a failed delivery: ${rendering.command('jobs', 'retry', failed.id)} --reason 'say why'`)
  }
  return columns(
    shown,
    [
      { title: 'ID', of: (delivery) => delivery.id },
      { title: 'NOTICE', of: (delivery) => delivery.notice, isNumber: true },
      { title: 'KIND', of: (delivery) => delivery.kind },
      { title: 'CHANNEL', of: (delivery) => delivery.channel },
      { title: 'STATE', of: (delivery) => delivery.state, style: ({ state }) => STYLE[state] },
      {
        title: 'TRY',
        of: (delivery) => `${Math.min(delivery.attempts, delivery.maxAttempts)}/${delivery.maxAttempts}`,
      },
      { title: 'TO', of: (delivery) => delivery.to.join(', '), charsMin: 10 },
      { title: 'ANSWER', of: answerOf, charsMin: 12 },
      { title: 'AGE', of: (delivery) => age(delivery.createdAt, terminal), isNumber: true },
    ],
    terminal,
  )
}

const STYLE: Readonly<Record<DeliveryView['state'], Style>> = {
  waiting: 'waiting',
  sending: 'plain',
  sent: 'good',
  nobody: 'quiet',
  failed: 'bad',
  cancelled: 'quiet',
}

function answerOf({ answer, error, refused }: DeliveryView): string {
  if (error !== null) return `${error.code}: ${error.answer ?? error.message}`
  const missed = refused.map(({ to, answer: why }) => `${to} refused: ${why}`)
  return [answer ?? '', ...missed].filter(Boolean).join('; ')
}

function testedChannel(output: OutputOf<'notices.test'>, { hint, command }: Rendering): string {
  if (output.isDone) hint(`Next: ${command('notices', 'deliveries')}`)
  return `${output.did}\n`
}

export const noticeRenderers = {
  'notices.list': notices,
  'notices.deliveries': deliveries,
  'notices.test': testedChannel,
} satisfies Partial<Renderers>
