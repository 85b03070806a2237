/**
 * Watches a folder in a process of its own that kills itself before its nth step on the disk or towards the store:
 * `node watcher.ts HOME FOLDER N`. It says `no more steps` when there are fewer.
 */
import fs from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { localPlace, watchFolder } from '../../../apps/proxx/cli/index.ts'
import { App } from '../../../src/app/app.ts'
import { silentLog } from '../../../src/runtime/log.ts'

const [home = '', folder = '', last = ''] = process.argv.slice(2)
let steps = 0
function step(): void {
  steps++
  if (steps === Number(last)) process.kill(process.pid, 'SIGKILL')
}

for (const name of ['mkdir', 'rename', 'unlink', 'open'] as const) {
  const real = fs[name] as (...args: unknown[]) => Promise<unknown>
  Object.assign(fs, {
    [name]: (...args: unknown[]) => {
      if (String(args[0]).startsWith(folder)) step()
      return real(...args)
    },
  })
}
syncBuiltinESMExports()

const app = new App({ store: `sqlite:${join(home, 'redress.db')}` })
const place = localPlace({ app, actor: 'ann', home: join(home, 'proxx'), env: process.env, log: silentLog })
const stopping = new AbortController()
await watchFolder({
  place: {
    show: place.show,
    async submit(spec, id) {
      step()
      const job = await place.submit(spec, id)
      step()
      return job
    },
  },
  folder,
  media: null,
  settleMs: 0,
  needsMarker: true,
  signal: stopping.signal,
  say: ({ event }) => event === 'failed' && stopping.abort(),
})
process.stdout.write('no more steps\n')
await app.stop()
