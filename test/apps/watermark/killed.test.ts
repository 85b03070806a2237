import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { watermarkApp } from '../../../apps/watermark/index.ts'
import { redress } from '../../../src/index.ts'
import { keepingLog } from '../../support/scene.ts'
import { openRaw, temporaryFolder } from '../../support/sqlite.ts'
import { until } from '../../support/until.ts'
import { StandIn } from './stand-in.ts'

test.each(['before-jobs', 'after-jobs'])(
  'a publish that is killed %s is finished by the next process, each copy once',
  async (dieAt) => {
    const folder = temporaryFolder()
    const fixture = join(import.meta.dirname, 'fixtures/publisher.ts')
    const options = ['--conditions=redress-source', '--disable-warning=ExperimentalWarning']
    const child = spawn(process.execPath, [...options, fixture, folder, dieAt], {
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    const [, signal] = await once(child, 'exit')
    expect(signal).toBe('SIGKILL')

    const app = redress({ store: `sqlite:${join(folder, 'redress.db')}` })
    const media = new StandIn()
    const log = keepingLog()
    const installed = await watermarkApp({ media }).install(app, { home: join(folder, 'watermark'), env: {}, log })
    onTestFinished(async () => {
      await app.stop({ graceMs: 5_000 })
      await installed.stop?.()
    })
    expect((await app.batches.list({})).batches).toHaveLength(dieAt === 'before-jobs' ? 0 : 1)
    await installed.start?.()
    expect(log.lines.map(({ fields }) => fields.event)).toEqual(['publish_resumed'])
    await app.work({ pollMs: 20 })
    const { id } = await until('it is ready', async () => (await app.batches.list({ state: 'complete' })).batches[0])
    expect((await app.list({ batch: id })).jobs).toHaveLength(2)
    expect(media.marked).toHaveLength(2)
    const rows = openRaw(join(folder, 'redress.db')).prepare('SELECT id, state FROM wm_campaigns').all()
    expect(rows.map((row) => ({ ...row }))).toEqual([{ id, state: 'PUBLISHED' }])
  },
)
