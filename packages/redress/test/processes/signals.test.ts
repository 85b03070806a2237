import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { look, scratchFile } from '../../../../test/support/processes/processes.ts'
import { ownDatabase } from '../../../../test/support/stores/databases.ts'
import { startPostgres, type TestPostgres } from '../../../../test/support/stores/postgres.ts'
import { App } from '../../src/app/app.ts'

const INDEX = new URL('../../src/index.ts', import.meta.url).href

let server: TestPostgres
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

const LOCATIONS = { SQLite: async () => `sqlite:${scratchFile()}`, PostgreSQL: () => ownDatabase(server.url) }

/** Runs the code until it says `begun`. */
async function started(code: string) {
  const args = [
    '--conditions=redress-source',
    '--input-type=module',
    '-e',
    `import { redress } from '${INDEX}'\n${code}`,
  ]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'ignore'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  const ended = once(child, 'exit')
  let said = ''
  child.stdout.on('data', (chunk) => {
    said += String(chunk)
  })
  while (!said.includes('begun')) await once(child.stdout, 'data')
  return { child, ended }
}

/** A program that runs two jobs: one ends 300 ms after a stop begins, the other as `handler` says. */
async function program(work: string, handler: string, more = '') {
  const file = scratchFile()
  const code = `
    import { redress } from '${INDEX}'
    const app = redress({ store: 'sqlite:${file}' })
    const job = app.job('j', { policy: { shutdown: 'requeue' }, run: async (n, attempt) => {
      console.log('begun')
      ${handler}
    } })
    ${more}
    const { id } = await job.submit(1)
    console.log(id)
    await app.work(${work})`
  const child = spawn(process.execPath, ['--conditions=redress-source', '--input-type=module', '-e', code], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(child, 'exit')
  let said = ''
  child.stdout.on('data', (chunk) => {
    said += String(chunk)
  })
  while (!said.includes('begun')) await once(child.stdout, 'data')
  const id = said.split('\n')[0] ?? ''
  return { child, ended, store: look(file), id, said: () => said }
}

const FINISHES = 'await new Promise((done) => setTimeout(done, 500)); return 1'
const HANGS = 'await new Promise(() => setInterval(() => 0, 1000))'

test.each([
  ['SIGTERM', 143],
  ['SIGINT', 130],
] as const)('%s lets a running job finish and ends the process with %i', async (signal, code) => {
  const { child, ended, store, id } = await program('{}', FINISHES)
  child.kill(signal)
  expect(await ended).toEqual([code, null])
  expect(await store.row(id)).toMatchObject({ status: 'complete', attempt: 1 })
})

test('a job that does not finish in the grace time is requeued, and the process ends although its handler hangs', async () => {
  const { child, ended, store, id } = await program('{ signals: { graceMs: 100 } }', HANGS)
  child.kill('SIGTERM')
  expect(await ended).toEqual([143, null])
  expect(await store.row(id)).toMatchObject({ status: 'queued', lease: null, orphanedAtMs: null })
})

test('a second signal ends the process at once', async () => {
  const { child, ended } = await program('{ signals: { graceMs: 600000 } }', HANGS, 'app.hub')
  child.kill('SIGTERM')
  const again = setInterval(() => child.kill('SIGTERM'), 50)
  expect(await ended).toEqual([143, null])
  clearInterval(again)
})

test.each(['on', 'once'])('a program with its own listener, added with process.%s, decides itself', async (add) => {
  const own = `process.${add}('SIGTERM', async () => { await app.stop(); setTimeout(() => process.exit(7), 300) })`
  const { child, ended, store, id } = await program('{}', FINISHES, own)
  child.kill('SIGTERM')
  expect(await ended).toEqual([7, null])
  expect(await store.row(id)).toMatchObject({ status: 'complete' })
})

test('signals: false leaves the signal to Node', async () => {
  const { child, ended } = await program('{ signals: false }', HANGS)
  child.kill('SIGTERM')
  expect(await ended).toEqual([null, 'SIGTERM'])
})

const SLOW = `async () => { console.log('begun'); await new Promise((done) => setTimeout(done, 500)); return 1 }`

test.each(['SQLite', 'PostgreSQL'] as const)(
  'SIGTERM in the middle of a job leaves no orphan on %s, and the jobs behind it stay queued',
  async (kind) => {
    const store = await LOCATIONS[kind]()
    const { child, ended } = await started(`
      const app = redress({ store: '${store}' })
      const job = app.job('j', { run: ${SLOW} })
      await job.submitMany([1, 2, 3, 4])
      await app.work({ concurrency: 1 })`)
    child.kill('SIGTERM')
    expect(await ended).toEqual([143, null])
    const app = new App({ store })
    onTestFinished(() => app.stop())
    const rows = (await (await app.store()).jobs({ limit: 9 })).toReversed()
    expect(rows.map(({ status, lease, orphanedAtMs }) => [status, lease, orphanedAtMs])).toEqual([
      ['complete', null, null],
      ['queued', null, null],
      ['queued', null, null],
      ['queued', null, null],
    ])
    const workers = await (await app.store()).workers()
    expect(workers.map(({ stoppedAtMs }) => typeof stoppedAtMs)).toEqual(['number'])
  },
)

test('a signal stops all apps of a process, and their running jobs finish', async () => {
  const files = [scratchFile(), scratchFile()]
  const { child, ended } = await started(`
    let running = 0
    for (const file of ${JSON.stringify(files)}) {
      const app = redress({ store: 'sqlite:' + file })
      const job = app.job('j', { run: async () => {
        if (++running === 2) console.log('begun')
        await new Promise((done) => setTimeout(done, 1500))
      } })
      await job.submit(1)
      await app.work()
    }`)
  child.kill('SIGTERM')
  expect(await ended).toEqual([143, null])
  for (const file of files) expect(await look(file).jobs({ limit: 9 })).toMatchObject([{ status: 'complete' }])
})

test('a store that does not answer holds up the end of the process for a few seconds after the grace time at most', async () => {
  const { child, ended } = await started(`
    const real = redress({ store: 'sqlite:${scratchFile()}' })
    const store = await real.store()
    let isSilent = false
    const silent = Object.fromEntries(Object.entries(store).map(([name, call]) => [
      name,
      name === 'onWake' ? call : (...args) => (isSilent ? new Promise(() => undefined) : call(...args)),
    ]))
    const app = redress({ store: silent })
    const job = app.job('j', { run: async () => { isSilent = true; console.log('begun'); return 1 } })
    await job.submit(1)
    await app.work({ signals: { graceMs: 300 } })
    setInterval(() => 0, 1000)`)
  const beganMs = performance.now()
  child.kill('SIGTERM')
  expect(await ended).toEqual([1, null])
  expect(performance.now() - beganMs).toBeLessThan(8_000)
})

test('an app that could not be stopped no longer handles signals', async () => {
  const { child, ended } = await started(`
    const real = redress({ store: 'sqlite:${scratchFile()}' })
    const store = await real.store()
    const app = redress({ store: { ...store, stop: () => Promise.reject(new Error('cannot close')) } })
    app.job('j', { run: () => 1 })
    await app.work()
    await app.stop().catch(() => undefined)
    setInterval(() => 0, 1000)
    console.log('begun')`)
  child.kill('SIGTERM')
  expect(await ended, 'Node ends it').toEqual([null, 'SIGTERM'])
})
