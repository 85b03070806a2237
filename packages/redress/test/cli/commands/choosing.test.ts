import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { ownDatabase } from '../../../../../test/support/stores/databases.ts'
import { startPostgres, type TestPostgres } from '../../../../../test/support/stores/postgres.ts'
import { until } from '../../../../../test/support/until.ts'
import { App } from '../../../src/app/app.ts'
import { folder, ROOT, redressAlone, running } from '../command.ts'

let server: TestPostgres
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

const LOCATIONS = {
  SQLite: async () => `sqlite:${folder()}/redress.db`,
  PostgreSQL: () => ownDatabase(server.url),
}

const INDEX = JSON.stringify(join(ROOT, 'packages/redress/src/index.ts'))

/** Jobs of `pdf.convert` never end; `late` is declared when the first mail has been sent. */
function appModule(): string {
  const file = join(folder(), 'app.ts')
  writeFileSync(
    file,
    `import { redress } from ${INDEX}
    const app = redress()
    let isLate = false
    app.job('mail.send', { queue: 'mail', run: () => {
      if (!isLate) app.job('mail.late', { queue: 'mail', run: () => 1 })
      isLate = true
    } })
    app.job('pdf.convert', { queue: 'pdf', run: (_, { signal }) => new Promise((_done, fail) => signal.onabort = fail) })
    app.job('plain', { run: () => 1 })
    export default app`,
  )
  return file
}

describe.each(['SQLite', 'PostgreSQL'] as const)('on %s', (kind) => {
  test('redress worker runs the queues and types that its flags name, and picks up what is declared later', async () => {
    const store = await LOCATIONS[kind]()
    const flags = ['--queues', 'mail,pdf', '--per-type', 'pdf.convert=2', '--grace', '0s']
    const { child, stdout, ended } = await running(['worker', appModule(), '--store', store, ...flags], {
      says: 'Ctrl-C stops it',
    })
    expect(stdout()).toContain('types   mail.send, pdf.convert\n')
    const app = new App({ store })
    onTestFinished(() => app.stop())
    const late = await until('the type is known', async () => {
      await app.submit('mail.send', {})
      return app.submit('mail.late', {}).catch(() => null)
    })
    await app.submitMany('pdf.convert', Array(6).fill({}))
    await app.submit('plain', {})
    await until('what was declared later has run', async () => (await app.jobs.show(late.id)).status === 'complete')
    const { workers } = await app.perform('workers.list', {})
    expect(workers.map(({ types }) => types)).toEqual([['mail.send', 'pdf.convert', 'mail.late']])
    const counts = async () => (await (await app.store()).counts()).map(({ type, ...rest }) => [type, rest] as const)
    await until('two conversions run', async () => new Map(await counts()).get('pdf.convert')?.processing === 2)
    expect(new Map(await counts()).get('pdf.convert')).toMatchObject({ queued: 4, processing: 2 })
    expect(new Map(await counts()).get('plain')).toMatchObject({ queued: 1 })
    child.kill('SIGTERM')
    expect(await ended).toBe(0)
  })
})

test('the environment chooses where no flag does, and a flag wins over it', async () => {
  const env = { WORKER_QUEUES: 'pdf', WORKER_TYPES: 'pdf.convert,plain', WORKER_PER_TYPE: 'pdf.convert=1' }
  const file = appModule()
  const from = await running(['worker', file, '--data', folder()], { says: 'Ctrl-C stops it', env })
  expect(from.stdout()).toContain('types   pdf.convert\n')
  const flag = await running(['worker', file, '--data', folder(), '--queues', 'default,pdf'], {
    says: 'Ctrl-C stops it',
    env,
  })
  expect(flag.stdout()).toContain('types   pdf.convert, plain\n')
})

test.each([
  [['--queues', 'mial'], 'queues names "mial", which is not a queue of this app.', 'Did you mean "mail"?'],
  [['--types', 'plian'], 'types names "plian", which is not a job type of this app.', 'Did you mean "plain"?'],
  [['--types', 'plain,,'], '--types must be names separated by commas', ''],
  [['--per-type', 'plain'], '--per-type must be such as pdf.convert=2, not "plain".', ''],
  [['--per-type', 'plain=0'], '--per-type must be such as pdf.convert=2, not "plain=0".', ''],
  [['--per-type', 'plain=1,plain=2'], '--per-type names a type twice', ''],
])('redress worker %j is refused, and no worker starts', async (flags, message, action) => {
  const { code, stderr } = await redressAlone(['worker', appModule(), '--data', folder(), ...flags])
  expect(stderr).toContain(message)
  expect(stderr).toContain(action)
  expect(code).toBe(2)
})

test('redress start refuses a choice of jobs beside --no-worker', async () => {
  const { code, stderr } = await redressAlone(['start', '--no-worker', '--types', 'plain', '--data', folder()])
  expect(stderr).toContain('--types and --no-worker cannot be combined')
  expect(code).toBe(2)
})
