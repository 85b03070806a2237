import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, onTestFinished, test } from 'vitest'
import { keepingLog, Scene } from '../../../../test/support/scene.ts'
import { ownDatabase } from '../../../../test/support/stores/databases.ts'
import { startPostgres } from '../../../../test/support/stores/postgres.ts'
import { temporaryFolder } from '../../../../test/support/stores/sqlite.ts'
import { App } from '../../src/app/app.ts'
import { DefaultLog } from '../../src/app/default-log.ts'
import { VirtualClock } from '../../src/runtime/clock.ts'

const INDEX = new URL('../../src/index.ts', import.meta.url).href

/** Keeps its lines, and lives in virtual time. */
function makeLog(output: { isTerminal?: boolean; hasColour?: boolean } = {}) {
  const clock = new VirtualClock()
  const lines: string[] = []
  const log = new DefaultLog({
    write: (line) => lines.push(line),
    isTerminal: false,
    hasColour: false,
    nowMs: () => clock.nowMs(),
    later: (ms, wake) => void clock.setTimer(ms, wake),
    ...output,
  })
  return { log, lines, clock, parsed: () => lines.map((line) => JSON.parse(line) as Record<string, unknown>) }
}

/** Runs a program that imports `redress`, and gives back what it wrote to standard error. */
async function stderrOf(code: string, env: Record<string, string> = {}): Promise<{ lines: string[]; stdout: string }> {
  const source = `import { redress, table } from '${INDEX}'\n${code}`
  const child = spawn(process.execPath, ['--conditions=redress-source', '--input-type=module', '-e', source], {
    cwd: temporaryFolder(),
    env: { PATH: process.env.PATH ?? '', NODE_NO_WARNINGS: '1', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const said = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].on('data', (chunk) => {
      said[name] += String(chunk)
    })
  }
  await once(child, 'close')
  return { lines: said.stderr.split('\n').filter((line) => line !== ''), stdout: said.stdout }
}

const FAILS = (options: string) => `
  const app = redress(${options})
  const job = app.job('boom', {
    policy: { retry: { max: 2, unknown: 'transient', backoff: table(['1ms']) }, deadLetter: 'flag' },
    run: () => { throw new Error('cannot reach https://ann:hunter2@example.org/x') },
  })
  await app.work()
  await job.submitAndWait({ card: '4111' }).catch((error) => console.log(error.code))
  await app.stop()`

test('a program that names no log gets the store, each retry and the final failure on standard error, as JSON lines', async () => {
  const { lines } = await stderrOf(FAILS(''))
  const parsed = lines.map((line) => JSON.parse(line))
  expect(parsed.map(({ level, msg }) => [level, msg])).toEqual([
    ['info', 'using this store'],
    ['warn', 'to be retried'],
    ['error', 'failed'],
  ])
  expect(parsed[0]).toMatchObject({ store: 'sqlite:.redress/redress.db', from: 'default' })
  expect(parsed[2]).toMatchObject({ type: 'boom', attempt: 2, error_code: 'UNKNOWN', dead_letter: true })
  expect(lines.join()).not.toContain('hunter2')
  expect(lines.join()).not.toContain('4111')
})

test('log: false logs nothing', async () => {
  const { lines, stdout } = await stderrOf(FAILS('{ log: false }'))
  expect(lines).toEqual([])
  expect(stdout).toBe('UNKNOWN\n')
})

test('a standard error that is closed does not end the program', async () => {
  const { stdout } = await stderrOf(`process.stderr.destroy()\n${FAILS('')}`)
  expect(stdout).toBe('UNKNOWN\n')
})

test.each([
  ['the option `store`', "{ store: 'sqlite:own.db' }", {}, 'sqlite:own.db'],
  ['REDRESS_STORE', '', { REDRESS_STORE: 'sqlite:env.db' }, 'sqlite:env.db'],
  ['default', '', { DATABASE_URL: 'mysql://not-ours' }, 'sqlite:.redress/redress.db'],
])('the first line says that %s named the store', async (from, options, env, store) => {
  const { lines } = await stderrOf(`const app = redress(${options}); await app.store(); await app.stop()`, env)
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    { level: 'info', time: expect.any(String), store, from, msg: 'using this store' },
  ])
})

test('a store from DATABASE_URL is named in a warning, without its password', async () => {
  const server = await startPostgres()
  onTestFinished(() => server.stop())
  const url = new URL(await ownDatabase(server.url))
  url.password = 'hunter2'
  const { lines } = await stderrOf('const app = redress(); await app.store(); await app.stop()', {
    DATABASE_URL: url.href,
  })
  expect(lines.length).toBe(1)
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({
    level: 'warn',
    from: 'DATABASE_URL',
    store: expect.stringContaining(url.pathname),
    msg: expect.stringContaining('set REDRESS_STORE'),
  })
  expect(lines[0]).not.toContain('hunter2')
})

test('a logger of the program gets the warning about DATABASE_URL, also when the store cannot be opened', async () => {
  const code = `
    const say = (level) => (fields, message) => console.log(level, fields.from, message.split(';')[0])
    const app = redress({ log: { debug: say('debug'), info: say('info'), warn: say('warn'), error: say('error') } })
    await app.store().catch((error) => console.log(error.code))
    await app.stop()`
  const { stdout } = await stderrOf(code, { DATABASE_URL: 'postgres://ann:hunter2@127.0.0.1:1/none' })
  expect(stdout.split('\n')[0]).toBe('warn DATABASE_URL using this store, which DATABASE_URL names')
})

test.each([true, 'pino', { warn: () => undefined }, null])('redress() refuses the log %j', (log) => {
  expect(() => new App({ log: log as never })).toThrow(
    /log must be false, or a logger with debug, info, warn and error/,
  )
})

test('a storm of failures is bounded for each type and code, and the rest is counted', async () => {
  const { log, parsed, clock } = makeLog()
  for (let i = 0; i < 5_000; i++) {
    log.error({ type: 'a', error_code: 'DOWN', job_id: String(i) }, 'failed')
    if (i < 3) log.error({ type: 'b', error_code: 'DOWN' }, 'failed')
  }
  expect(parsed().filter(({ type }) => type === 'a').length).toBe(10)
  expect(parsed().filter(({ type }) => type === 'b').length, 'other types are not hidden').toBe(3)
  await clock.advance(60_000)
  expect(parsed().slice(13)).toEqual([
    expect.objectContaining({
      level: 'error',
      type: 'a',
      error_code: 'DOWN',
      left_out: 4_990,
      msg: 'failed: 4990 more in the last 60 s were not logged',
    }),
  ])
  log.error({ type: 'a', error_code: 'DOWN' }, 'failed')
  expect(parsed().length, 'then lines are written again').toBe(15)
})

test('a storm of ever new codes is bounded, too', async () => {
  const { log, lines, clock } = makeLog()
  for (let i = 0; i < 20_000; i++) log.error({ type: `t${i}`, error_code: 'DOWN' }, 'failed')
  expect(lines.length).toBe(510)
  await clock.advance(60_000)
  expect(lines.slice(510).map((line) => JSON.parse(line).left_out)).toEqual([19_490])
})

test('what was left out is said when the app stops', async () => {
  const { log, parsed } = makeLog()
  const app = new App({ store: 'sqlite::memory:', log })
  for (let i = 0; i < 12; i++) log.warn({}, 'late')
  await app.stop()
  expect(parsed().at(-1)).toMatchObject({ left_out: 2, msg: expect.stringContaining('late: 2 more') })
})

test('fields with inputs and secrets are left out, and a field that cannot be JSON does no harm', () => {
  const { log, parsed, lines } = makeLog()
  const loop: Record<string, unknown> = { size: 1n }
  loop.self = loop
  const err = Object.assign(new Error('password=hunter2 of postgres://u:hunter2@h/d'), { code: 'EX' })
  log.warn({ input: 'hunter2', payload: 'hunter2', authorization: 'Bearer hunter2hunter2', loop, err }, 'odd')
  expect(parsed()[0]).toMatchObject({ loop: { size: '1', self: '[circular]' }, err: { name: 'Error', code: 'EX' } })
  expect(lines[0]).not.toContain('hunter2')
})

test('on a terminal a line is for people: time, level, message and fields, without control characters of others', () => {
  const { log, lines } = makeLog({ isTerminal: true })
  const fields = {
    type: 'pdf.convert',
    error_code: null,
    because: 'a \u001b[2J b\u0007',
    err: new Error('no\u001b[31m'),
  }
  log.warn(fields, 'to be retried')
  log.error({ err: new Error('down') }, 'claiming failed')
  expect(lines[0]).toBe('00:00:00 WARN  to be retried type=pdf.convert because="a  b\\u0007" error=no')
  expect(lines[1]).toMatch(/^00:00:00 ERROR claiming failed error=down\n {4}at /)
  const coloured = makeLog({ isTerminal: true, hasColour: true })
  coloured.log.warn({}, 'x')
  expect(coloured.lines[0]).toContain('\u001b[33mWARN \u001b[0m')
})

test('debug and info lines are not written', () => {
  const { log, lines } = makeLog()
  log.debug()
  log.info()
  expect(lines).toEqual([])
})

test('the job of a lost worker reaches the log of the app', async () => {
  const log = keepingLog()
  const scene = new Scene({ log })
  scene.app.job('slow', { policy: { lease: { ttl: '3s' } }, run: () => new Promise(() => undefined) })
  await scene.app.submit('slow', {})
  const dying = await scene.app.makeWorker()
  await dying.tick()
  await dying.tick()
  dying.crash()
  const other = await scene.worker()
  await scene.pass(10_000)
  await other.maintain()
  expect(log.lines.filter(({ level }) => level === 'warn').map(({ message }) => message)).toEqual([
    'the worker of this job is gone',
    'stalled jobs were reclaimed or reported',
  ])
})
