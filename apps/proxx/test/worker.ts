/** A worker of proxx in a process of its own, for tests that kill it: `node worker.ts HOME NAME`. */
import { join } from 'node:path'
import { App } from '../../../packages/redress/src/app/app.ts'
import { silentLog } from '../../../packages/redress/src/runtime/log.ts'
import { openProxx } from '../src/install.ts'

const [home = '', id = ''] = process.argv.slice(2)
const app = new App({ store: `sqlite:${join(home, 'redress.db')}` })
openProxx(app, { home: join(home, 'proxx'), env: process.env, log: silentLog })
await app.work({ id, pollMs: 50 })
