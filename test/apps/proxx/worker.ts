/** A worker of proxx in a process of its own, for tests that kill it: `node worker.ts HOME NAME`. */
import { join } from 'node:path'
import { openDesk } from '../../../apps/proxx/index.ts'
import { App } from '../../../src/app/app.ts'
import { silentLog } from '../../../src/runtime/log.ts'

const [home = '', id = ''] = process.argv.slice(2)
const app = new App({ store: `sqlite:${join(home, 'redress.db')}` })
openDesk(app, { home: join(home, 'proxx'), env: process.env, log: silentLog })
await app.work({ id, pollMs: 50 })
