import { formatMs } from '../../core/text/duration.ts'
import type { QueueView } from '../../operations/queues/queues.ts'
import type { OutputOf } from '../../operations/table.ts'
import { quoted } from '../language/commands.ts'
import { columns } from '../terminal/columns.ts'
import type { Renderers, Rendering } from './rendering.ts'

const COUNTS = ['queued', 'waiting', 'processing', 'orphaned', 'complete', 'failed', 'cancelled'] as const

function queues({ queues: shown }: OutputOf<'queues.list'>, { terminal }: Rendering): string {
  return columns(
    shown,
    [
      { title: 'QUEUE', of: (row) => row.queue, charsMin: 7 },
      { title: 'TYPE', of: (row) => row.type, charsMin: 12 },
      ...COUNTS.map((name) => ({ title: name.toUpperCase(), of: (row: QueueView) => row[name], isNumber: true })),
      {
        title: 'OLDEST',
        of: (row) => (row.oldestReadyMs === null ? null : formatMs(row.oldestReadyMs)),
        isNumber: true,
      },
      { title: 'PAUSED', of: (row) => pausedOf(row), charsMin: 10, style: () => 'waiting' },
    ],
    terminal,
  )
}

function pausedOf({ paused }: QueueView): string {
  if (paused === null) return ''
  return `by ${paused.by}: ${paused.reason}${paused.until === null ? '' : ` (until ${paused.until})`}`
}

function queueActed(output: OutputOf<'queues.pause'>, { hint, command }: Rendering): string {
  if (output.isDone && output.paused !== null) {
    hint(`Resume it: ${command('queues', 'resume', output.queue)} --reason ${quoted('say why')}`)
  }
  return `${output.did}\n`
}

export const queueRenderers = {
  'queues.list': queues,
  'queues.pause': queueActed,
  'queues.resume': queueActed,
} satisfies Partial<Renderers>
