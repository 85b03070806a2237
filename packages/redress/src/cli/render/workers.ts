import type { OutputOf } from '../../operations/table.ts'
import { columns } from '../terminal/columns.ts'
import { ago } from '../terminal/terminal.ts'
import type { Renderers, Rendering } from './rendering.ts'

function workers({ workers: shown }: OutputOf<'workers.list'>, { terminal }: Rendering): string {
  return columns(
    shown,
    [
      { title: 'WORKER', of: (worker) => worker.id },
      {
        title: 'STATE',
        of: (worker) => worker.state,
        style: ({ state }) => (state === 'working' ? 'good' : state === 'silent' ? 'bad' : 'quiet'),
      },
      { title: 'HOST', of: (worker) => worker.host, charsMin: 8 },
      { title: 'PID', of: (worker) => worker.pid, isNumber: true },
      { title: 'RUNS', of: (worker) => worker.types.join(', '), charsMin: 8 },
      { title: 'STARTED', of: (worker) => ago(worker.startedAt, terminal) },
      { title: 'SEEN', of: (worker) => ago(worker.seenAt, terminal) },
    ],
    terminal,
  )
}

export const workerRenderers = {
  'workers.list': workers,
} satisfies Partial<Renderers>
