import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type Actor, look, program, scratchFile } from '../../../../../test/support/processes/processes.ts'
import { fillStore } from '../../../../../test/support/stores/full-store.ts'
import { until } from '../../../../../test/support/until.ts'
import { checkJob } from '../../../src/store/conformance/bench/checks.ts'
import type { FullDiskSetup } from '../../processes/fixtures/full-disk.ts'
import { folder, json, ROOT, redress, redressAlone, running } from '../command.ts'

const acknowledged = ({ said }: Actor): string[] =>
  said.flatMap((line) => (line.said === 'acknowledged' ? (line.jobId ?? []) : []))

test('a backup during writes has every job acknowledged before it, and blocks no writer', async () => {
  const file = scratchFile()
  const setup: FullDiskSetup = {
    file,
    types: { any: { orphan: 'requeue' } },
    flood: { type: 'any', bytes: 5_000 },
    worker: { concurrency: 4, pollMs: 20, maintenanceMs: 200 },
  }
  const writer = program('full-disk', [JSON.stringify(setup)], file)
  await until('it has written a lot', () => acknowledged(writer).length > 300)
  const before = acknowledged(writer)
  const copy = join(folder(), 'copy.db')
  const made = (await json(['backup', copy, '--store', `sqlite:${file}`])) as {
    tables: { table: string; rows: number }[]
  }
  expect(statSync(copy).mode & 0o777).toBe(0o600)
  const after = acknowledged(writer).length
  await until('it goes on', () => acknowledged(writer).length > after)
  expect(after).toBeGreaterThan(before.length)
  expect(writer.said.filter(({ said }) => said === 'refused' || said === 'logged')).toEqual([])
  writer.kill('SIGKILL')
  await writer.ended

  const data = folder()
  const { code, stdout, stderr } = await redress(['restore', copy, '--data', data])
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(statSync(join(data, 'redress.db')).mode & 0o777).toBe(0o600)
  expect(stdout).toContain('Restored')
  expect(stdout).toContain('those jobs run again when a worker starts')
  const store = look(join(data, 'redress.db'))
  for (const id of before) expect(await store.job({ id }), id).not.toBeNull()
  const jobs = await store.jobs({ limit: 100_000 })
  expect(jobs.length).toBe(made.tables.find(({ table }) => table === 'jobs')?.rows)
  for (const job of jobs) checkJob(job, await store.events({ id: job.id }))
}, 120_000)

test('a backup that is stopped by a signal leaves no file', async () => {
  const file = scratchFile()
  await fillStore(file, { jobs: 20_000 })
  const copy = join(folder(), 'copy.db')
  const child = spawn(join(ROOT, 'packages/redress/bin/redress'), ['backup', copy, '--store', `sqlite:${file}`], {
    stdio: 'ignore',
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  const ended = new Promise((resolve) => child.once('exit', (code) => resolve(code)))
  await until('it has begun', () => existsSync(`${copy}.partial-${child.pid}`) || existsSync(copy))
  child.kill('SIGTERM')
  // It may have been done before the signal came.
  expect([0, 143]).toContain(await ended)
  expect(readdirSync(dirname(copy)).filter((name) => name !== 'copy.db')).toEqual([])
}, 60_000)

test('backup and restore print what was copied, what is not included, and what to do next', async () => {
  const file = scratchFile()
  await fillStore(file)
  const copy = join(folder(), 'copy.db')
  const made = await redress(['backup', copy, '--store', `sqlite:${file}`])
  expect(made).toMatchObject({ code: 0, stderr: '' })
  expect(made.stdout).toMatch(/^TABLE +ROWS\n/)
  expect(made.stdout).toMatch(/\njobs +\d+\n/)
  expect(made.stdout).toContain(`Backed up ${file} to ${copy}:`)
  expect(made.stdout).toContain('Not included: artifacts')
  const again = await redress(['backup', copy, '--store', `sqlite:${file}`])
  expect(again.code).toBe(4)
  expect(again.stderr).toMatch(/^BACKUP_EXISTS: /)
  expect((await redress(['backup', copy, '--store', `sqlite:${file}`, '--force'])).code).toBe(0)

  const data = folder()
  const restored = await redress(['restore', copy, '--data', data, '--pause'])
  expect(restored).toMatchObject({ code: 0, stderr: '' })
  expect(restored.stdout).toContain('Every queue is paused.')
  expect((await redress(['restore', copy, '--data', data])).stderr).toMatch(/^STORE_NOT_EMPTY: .*\n.*--force/)
  const forced = (await json(['restore', copy, '--data', data, '--force'])) as { aside: string }
  expect(existsSync(forced.aside)).toBe(true)
})

test('a restored store passes the doctor, and the printed command resumes its queues', async () => {
  const file = scratchFile()
  await fillStore(file)
  const copy = join(folder(), 'copy.db')
  await json(['backup', copy, '--store', `sqlite:${file}`])
  const data = folder()
  const { stdout } = await redress(['restore', copy, '--data', data, '--pause'])
  const { findings } = (await jsonOf(['doctor', '--data', data])) as { findings: { check: string; level: string }[] }
  expect(findings.find(({ check }) => check === 'journal')).toMatchObject({ level: 'ok' })
  const [, words = ''] = /let them go on: (?:npx )?\S+ (.*)/.exec(stdout) ?? []
  const said = words.replace('NAME', 'default').match(/'[^']*'|\S+/g) ?? []
  expect(await redress(said.map((word) => word.replaceAll("'", '')))).toMatchObject({ code: 0 })
})

describe('a restore by force', () => {
  /** A store, and a backup of it to put in its place. */
  async function storeAndCopy(): Promise<{ data: string; restore: () => ReturnType<typeof redressAlone> }> {
    const data = folder()
    await fillStore(join(data, 'redress.db'))
    const copy = join(folder(), 'copy.db')
    await json(['backup', copy, '--data', data])
    return { data, restore: () => redressAlone(['restore', copy, '--data', data, '--force']) }
  }

  test('is refused while a server without a worker has the store open, and names its process', async () => {
    const { data, restore } = await storeAndCopy()
    const server = await running(['start', '--no-worker', '--apps', 'sample', '--port', '0', '--data', data], {
      says: 'Ctrl-C stops it',
    })
    const refused = await restore()
    expect(refused.code).toBe(4)
    expect(refused.stderr).toMatch(/^STORE_IN_USE: /)
    if (process.platform === 'linux') expect(refused.stderr).toContain(`process ${server.child.pid}.`)
    expect(readdirSync(data).filter((name) => /before|partial/.test(name))).toEqual([])
    server.child.kill('SIGTERM')
    await server.ended
    expect(await restore()).toMatchObject({ code: 0, stderr: '' })
  })

  test('is refused while a program that only submits has the store open, and not after it was killed', async () => {
    const { data, restore } = await storeAndCopy()
    const script = join(folder(), 'submit.ts')
    writeFileSync(
      script,
      `import { redress } from ${JSON.stringify(join(ROOT, 'packages/redress/src/index.ts'))}
      const app = redress({ store: ${JSON.stringify(`sqlite:${join(data, 'redress.db')}`)} })
      app.job('any', { run: () => undefined })
      await app.submit('any', {})
      console.log('submitted')
      setInterval(() => undefined, 60_000)`,
    )
    const child = spawn(process.execPath, ['--conditions=redress-source', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    onTestFinished(() => void child.kill('SIGKILL'))
    await once(child.stdout as NodeJS.ReadableStream, 'data')
    const refused = await restore()
    expect(refused.stderr).toMatch(/^STORE_IN_USE: /)
    if (process.platform === 'linux') expect(refused.stderr).toContain(String(child.pid))
    child.kill('SIGKILL')
    await once(child, 'exit')
    expect(await restore()).toMatchObject({ code: 0, stderr: '' })
  })

  test('a worker that was just killed does not block a restore', async () => {
    const { data, restore } = await storeAndCopy()
    const worker = await running(['start', '--apps', 'sample', '--no-http', '--data', data], {
      says: 'Ctrl-C stops it',
    })
    expect((await restore()).stderr).toMatch(/worker /)
    worker.child.kill('SIGKILL')
    await worker.ended
    expect(await restore()).toMatchObject({ code: 0, stderr: '' })
  })
})

test.each([
  ['a folder that is not there', ['backup', 'none/copy.db'], 'OPTION_INVALID: There is no folder '],
  ['a folder', ['backup', '.'], 'OPTION_INVALID: '],
  ['a folder, by force', ['backup', '.', '--force'], 'OPTION_INVALID: '],
  ['a backup that is not there', ['restore', 'none.db', '--data', 'new'], 'Check the path of the backup.'],
])('an unusable path is refused with the reason: %s', async (_what, args, says) => {
  const file = scratchFile()
  await fillStore(file)
  const cwd = folder()
  const answer = await redress(args, { cwd, env: { REDRESS_STORE: `sqlite:${file}` } })
  expect([2, 3]).toContain(answer.code)
  expect(answer.stderr).toContain(says)
  expect(readdirSync(cwd)).toEqual([])
})

/** Also where the command has found something: doctor says so with its exit code. */
async function jsonOf(args: readonly string[]): Promise<unknown> {
  return JSON.parse((await redress([...args, '--json'])).stdout)
}
