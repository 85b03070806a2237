/**
 * Watches a folder in a process of its own that kills itself before its nth step on the disk or towards the store:
 * `node watcher.ts HOME FOLDER N HOW`. It says `no more steps` when there are fewer. Specs are taken by their `marker`;
 * cards when they have `settled`. What is the same for both, before and after, is counted with markers only.
 */
import fs from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { App } from '../../../../packages/redress/src/app/app.ts'
import { silentLog } from '../../../../packages/redress/src/runtime/log.ts'
import { localTarget } from '../../src/cli/target.ts'
import { watchFolder } from '../../src/watch/watch.ts'

const [home = '', folder = '', last = '', how = ''] = process.argv.slice(2)
const isByMarker = how === 'marker'
let isCounting = isByMarker
let steps = 0
function step(): void {
  if (!isCounting) return
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

// Between the line in the failure log and the change that it tells of.
const file = await fs.open(import.meta.filename)
const handles = Object.getPrototypeOf(file)
await file.close()
const { datasync } = handles
handles.datasync = async function (this: unknown) {
  await datasync.call(this)
  step()
}

const app = new App({ store: `sqlite:${join(home, 'redress.db')}`, log: silentLog })
const target = await localTarget({
  ...{ app, actor: 'ann', isVisit: true },
  ...{ home: join(home, 'proxx'), env: process.env, log: silentLog },
})
const stopping = new AbortController()
await watchFolder({
  target: {
    show: target.show,
    async submit(spec, id) {
      isCounting = isByMarker
      step()
      const job = await target.submit(spec, id)
      step()
      return job
    },
  },
  folder,
  media: isByMarker ? null : { profile: 'proxy_h264_low', output: home, naming: '{source_name}' },
  settleMs: isByMarker ? 0 : 1,
  needsMarker: isByMarker,
  signal: stopping.signal,
  say({ event }) {
    if (event === 'watching') isCounting = true
    if (event === 'failed') stopping.abort()
  },
})
process.stdout.write('no more steps\n')
await app.stop()
