import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import * as bullmq6 from 'bullmq'
import * as bullmq5 from 'bullmq-5'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { NO_REDIS, REDIS, startRedis, type TestRedis } from '../../../../../test/support/servers/redis.ts'
import { openRaw } from '../../../../../test/support/stores/sqlite.ts'
import { until } from '../../../../../test/support/until.ts'
import type { ImportReport } from '../../../src/app/import/run.ts'
import { environment, folder, json, ROOT, redress, redressAlone } from '../command.ts'

const APP = join(import.meta.dirname, 'fixtures/import-app.ts')
const HOUR_MS = 3_600_000

let server: TestRedis | null = null
beforeAll(async () => {
  if (REDIS !== null) server = await startRedis()
})
afterAll(() => server?.stop())

/** A keyspace of its own on the server of this file. */
let databases = 0
function ownRedis(): { url: string; connection: object; redis: Redis } {
  const url = `${(server as TestRedis).url}/${++databases}`
  const { port } = new URL(url)
  const redis = new Redis(url)
  onTestFinished(() => redis.disconnect())
  return { url, redis, connection: { host: '127.0.0.1', port: Number(port), db: databases } }
}

type Answer = ImportReport & { isDone: boolean }
const importing = (url: string, data: string, ...more: string[]) =>
  redressAlone(['import', 'bullmq', '--redis', url, '--app', APP, '--data', data, ...more])
const answerOf = async (url: string, data: string, ...more: string[]): Promise<Answer> =>
  JSON.parse((await importing(url, data, '--json', ...more)).stdout)
const jobsIn = async (data: string, ...more: string[]) =>
  (await json(['jobs', 'list', '--limit', '100', '--data', data, ...more])) as { id: string; type: string }[]

/** Everything in the keyspace, to see that an import changes nothing. */
async function dumpOf(redis: Redis): Promise<Record<string, string | null>> {
  const keys = (await redis.keys('*')).sort()
  const dumps = await Promise.all(
    keys.map(async (key) => [key, (await redis.dumpBuffer(key))?.toString('hex') ?? null]),
  )
  return Object.fromEntries(dumps)
}

describe.skipIf(REDIS === null)(`redress import bullmq${REDIS === null ? ` (skipped: ${NO_REDIS})` : ''}`, () => {
  describe.each([
    ['BullMQ 6', bullmq6],
    ['BullMQ 5', bullmq5 as unknown as typeof bullmq6],
  ])('%s', (_, { Queue, Worker, FlowProducer }) => {
    async function filled() {
      const { url, connection, redis } = ownRedis()
      const queue = new Queue('mail', { connection })
      onTestFinished(() => queue.close())
      const add = (name: string, data: object, opts: object = {}) => queue.add(name, data, opts)
      await add('fails', { to: 'eve' }, { attempts: 2, backoff: { type: 'fixed', delay: 1 } })
      await add('fails', { nobody: true })
      const worker = new Worker(
        'mail',
        async () => {
          throw new Error('mailbox full; password=hunter2')
        },
        { connection },
      )
      await until('both have failed', async () => (await queue.getFailedCount()) === 2)
      await worker.close()
      await add('welcome', { to: 'ann' })
      await add('welcome', { to: 'bob' }, { jobId: 'bob-1' })
      await add('welcome', { to: 'cat' }, { priority: 2 })
      await add('welcome', { to: 'dan' }, { priority: 1 })
      await add('welcome', { to: 'fay' }, { delay: HOUR_MS })
      await add('welcome', { wrong: 1 })
      await add('unheard', { to: 'gus' })
      await queue.upsertJobScheduler(
        'nightly',
        { pattern: '0 3 * * *', tz: 'Europe/Berlin' },
        { name: 'digest', data: { n: 1 } },
      )
      return { url, connection, redis, queue }
    }
    const MAP = ['--map', 'mail/welcome=mail.send', '--map', 'mail/fails=mail.send']

    test('a dry run counts by queue, name, state and type, names every problem, and changes nothing', async () => {
      const { url, redis } = await filled()
      const data = folder()
      const before = await dumpOf(redis)
      const { code, stdout, stderr } = await importing(url, data, ...MAP, '--dry-run')
      expect({ code, stderr }).toEqual({ code: 1, stderr: '' })
      expect(stdout).toMatch(/^mail +welcome +waiting +mail\.send +3 +2 +0 +1$/m)
      expect(stdout).toMatch(/^mail +welcome +prioritized +mail\.send +2 +2 +0 +0$/m)
      expect(stdout).toMatch(/^mail +unheard +waiting +- +1 +0 +0 +1$/m)
      expect(stdout).toContain(`add --map 'mail/unheard=TYPE'`)
      expect(stdout).toMatch(/1 waiting of mail\/welcome: INPUT_INVALID: .*to/)
      expect(stdout).toMatch(/mail: app\.schedule\("digest", .*cron: "0 3 \* \* \*", timezone: "Europe\/Berlin"/)
      expect(stdout).toMatch(/^Nothing was done\. .*: 10 jobs = 7 to import \+ 0 imported before \+ 3 skipped\./m)
      expect(await dumpOf(redis)).toEqual(before)
      expect((await redress(['jobs', 'list', '--data', data])).code).not.toBe(0)
    })

    test('an import brings waiting, prioritized, delayed and failed jobs, once, and leaves the source as it was', async () => {
      const { url, redis } = await filled()
      const data = folder()
      const before = await dumpOf(redis)
      const first = await answerOf(url, data, ...MAP)
      expect(first.totals).toEqual({ source: 10, imported: 7, already: 0, skipped: 3 })
      expect(await dumpOf(redis)).toEqual(before)
      const again = await answerOf(url, data, ...MAP)
      expect(again.totals).toEqual({ source: 10, imported: 0, already: 7, skipped: 3 })
      expect(await jobsIn(data)).toHaveLength(7)

      const rows = openRaw(join(data, 'redress.db'))
        .prepare(
          `SELECT payload, priority, due_at, status, dedupe_key FROM job_specs JOIN jobs USING (key) ORDER BY key`,
        )
        .all() as {
        payload: string
        priority: number
        due_at: number | null
        status: string
        dedupe_key: string | null
      }[]
      const of = (to: string) => rows.find(({ payload }) => payload.includes(to))
      expect(rows.filter(({ status }) => status === 'queued').map(({ payload }) => JSON.parse(payload).to)).toEqual([
        'ann',
        'bob',
        'dan',
        'cat',
        'fay',
      ])
      expect([of('dan')?.priority, of('cat')?.priority, of('ann')?.priority]).toEqual([-1, -2, 0])
      expect(of('bob')?.dedupe_key).toBe('bob-1')
      const fay = await redis.hget('bull:mail:7', 'timestamp')
      expect(of('fay')?.due_at).toBeGreaterThanOrEqual(Number(fay) + HOUR_MS)
      expect(of('fay')?.due_at).toBeLessThan(Number(fay) + HOUR_MS + 60_000)
    })

    test('an imported failure is explained, is a dead letter, and can be retried', async () => {
      const { url } = await filled()
      const data = folder()
      await answerOf(url, data, ...MAP, '--include', 'failed')
      const failed = await jobsIn(data, '--status', 'failed')
      expect(failed).toHaveLength(2)
      const letters = (await json(['dead-letters', 'list', '--data', data])) as {
        jobId: string
        attempts: number
        failure: { code: string; detail: string; context: object }
      }[]
      const letter = letters.find(({ attempts }) => attempts === 2)
      expect(letter?.failure).toMatchObject({ code: 'IMPORTED', context: { importedFrom: 'BullMQ', attemptsMade: 2 } })
      expect(letter?.failure.detail).toContain('mailbox full')
      expect(letter?.failure.detail).not.toContain('hunter2')
      const id = letter?.jobId as string
      const { stdout } = await redress(['explain', id, '--data', data])
      expect(stdout).toContain('IMPORTED: This job had failed before it was imported from another system.')
      expect(stdout).toContain('Imported from BullMQ, queue mail, job 1.')
      expect(stdout).toContain('it had failed after 2 attempts before it was imported')
      expect((await redress(['retry', id, '--reason', 'the mailbox is empty', '--data', data])).code).toBe(0)
      expect(await jobsIn(data, '--status', 'queued')).toHaveLength(1)
    })

    test('active jobs and parents that wait for children are left, counted, and told by the exit code', async () => {
      const { url, connection, queue } = await filled()
      const data = folder()
      const flow = new FlowProducer({ connection })
      onTestFinished(() => flow.close())
      await flow.add({
        name: 'welcome',
        queueName: 'mail',
        data: { to: 'parent' },
        children: [{ name: 'welcome', queueName: 'mail', data: { to: 'child' } }],
      })
      const held = Promise.withResolvers<void>()
      const worker = new Worker('mail', () => held.promise, { connection })
      await until('a job runs', async () => (await queue.getActiveCount()) === 1)
      const refused = await importing(url, data, ...MAP)
      expect(refused.code).not.toBe(0)
      expect(refused.stderr).toContain('Workers are connected to')
      const { problems, isComplete } = await answerOf(url, data, ...MAP, '--despite-workers')
      expect(isComplete).toBe(false)
      const left = (state: string) => problems.find((problem) => problem.state === state && problem.name === null)
      expect(left('active')).toMatchObject({ count: 1, isSkipped: true, why: 'a worker runs them' })
      expect(left('waiting-children')).toMatchObject({ count: 1 })
      expect(problems.some(({ why }) => why.includes('which will not hear of its end'))).toBe(true)
      held.resolve()
      await worker.close(true)
    })

    test('waiting jobs of a paused queue are imported although a worker is connected', async () => {
      const { url, connection, queue } = await filled()
      await queue.pause()
      const worker = new Worker('mail', async () => undefined, { connection })
      onTestFinished(() => worker.close(true))
      await worker.waitUntilReady()
      expect((await answerOf(url, folder(), ...MAP)).totals).toMatchObject({ imported: 7 })
    })

    test('an import that is killed is completed by the next one', async () => {
      const { url, connection } = ownRedis()
      const queue = new Queue('mail', { connection })
      onTestFinished(() => queue.close())
      const count = 3_000
      await queue.addBulk(Array.from({ length: count }, (_, i) => ({ name: 'welcome', data: { to: `n${i}` } })))
      const data = folder()
      const bin = join(ROOT, 'packages/redress/bin/redress')
      const args = ['import', 'bullmq', '--redis', url, '--app', APP, '--data', data, '--map', 'mail=mail.send']
      const child = spawn(bin, args, { cwd: ROOT, env: environment({}), stdio: 'ignore', detached: true })
      const ended = new Promise((resolve) => child.on('exit', resolve))
      const file = join(data, 'redress.db')
      const isFilled = () =>
        openRaw(file).prepare(`SELECT 1 FROM sqlite_master WHERE name = 'jobs'`).get() !== undefined
      const stored = () =>
        existsSync(file) ? Number(openRaw(file).prepare('SELECT count(*) AS count FROM jobs').get()?.count) : 0
      await until('some are there', () => existsSync(file) && isFilled() && stored() > 0)
      process.kill(-(child.pid as number), 'SIGKILL')
      await ended
      const { totals, isComplete } = await answerOf(url, data, '--map', 'mail=mail.send')
      expect(isComplete).toBe(true)
      expect(totals.imported + totals.already).toBe(count)
      expect(totals.already).toBeGreaterThan(0)
      expect(stored()).toBe(count)
    })
  })

  test('jobs whose dedupe key is held by another job are imported without the key', async () => {
    const { url, connection } = ownRedis()
    const queue = new bullmq6.Queue('mail', { connection })
    onTestFinished(() => queue.close())
    const again = { deduplication: { id: 'daily', ttl: 1 } }
    await queue.add('welcome', { to: 'ann' }, again)
    await until('the key is free again', async () => (await queue.getDeduplicationJobId('daily')) === null)
    await queue.add('welcome', { to: 'bob' }, again)
    const data = folder()
    const { totals, problems } = await answerOf(url, data, '--map', 'mail=mail.send')
    expect(totals).toMatchObject({ imported: 2 })
    expect(problems).toEqual([expect.objectContaining({ count: 1, why: expect.stringContaining('dedupe key') })])
    expect((await answerOf(url, data, '--map', 'mail=mail.send')).totals).toMatchObject({ imported: 0, already: 2 })
  })

  test('an unknown queue is refused with the names of the queues', async () => {
    const { url, connection } = ownRedis()
    const queue = new bullmq6.Queue('mail', { connection })
    onTestFinished(() => queue.close())
    await queue.add('welcome', {})
    const { code, stderr } = await importing(url, folder(), '--queue', 'mial')
    expect(code).toBe(2)
    expect(stderr).toContain('There is no BullMQ queue "mial"')
    expect(stderr).toContain('The queues are: mail.')
  })

  test('a wrong password is reported in one sentence that ends with one period', async () => {
    const { url } = ownRedis()
    const { code, stderr } = await importing(url.replace('redis://', 'redis://bob:hunter2@'), folder())
    expect(code).toBe(5)
    expect(stderr).toMatch(/cannot be read: WRONGPASS [^\n]*[^.]\.\n/)
    expect(stderr).not.toContain('hunter2')
  })
})

describe('without a usable server', () => {
  test('a server that refuses connections is named without its password', async () => {
    const { code, stderr } = await importing('redis://:hunter2@127.0.0.1:1', folder())
    expect(code).toBe(5)
    expect(stderr).toContain('cannot be read')
    expect(stderr).not.toContain('hunter2')
  })

  test('a project without ioredis is told what to install', async () => {
    const { code, stderr } = await redress(['import', 'bullmq', '--redis', 'redis://127.0.0.1:1'], { cwd: folder() })
    expect(code).toBe(2)
    expect(stderr).toContain('npm install ioredis')
  })

  test.each([
    [['import', 'rabbit'], 'There is no import from "rabbit"'],
    [['import', 'bullmq'], '--redis is missing'],
    [['import', 'bullmq', '--redis', 'localhost'], '--redis must begin with redis://'],
    [['import', 'bullmq', '--redis', 'redis://x', '--map', 'mail'], '--map must be like'],
    [['import', 'bullmq', '--redis', 'redis://x', '--include', 'active'], '--include must name some of'],
    [['import', 'pg-boss', '--redis', 'redis://x'], '--redis is not an option'],
    [['import', 'pg-boss'], '--from is missing'],
    [['import', 'pg-boss', '--from', 'mysql://x'], '--from must begin with postgres://'],
  ])('%j is refused', async (args, message) => {
    const { code, stderr } = await redress(args)
    expect(code).toBe(2)
    expect(stderr).toContain(message)
  })

  test.each([
    ['redis://127.0.0.1:99999', 'the port 99999 is higher than 65535'],
    ['redis://127.0.0.1:port', 'the port "port" is not a number'],
    ['redis://bob:hunter2%@127.0.0.1:1', 'a % in it does not begin an escape such as %25'],
    ['redis://b%b:hunter2@127.0.0.1:1', 'a % in it does not begin an escape such as %25'],
    ['redis://bob:hunter2#@127.0.0.1:1', 'it cannot be parsed'],
    ['redis://', 'the host is missing'],
    ['redis://bob:hunter2 @127.0.0.1:1', 'it contains a space'],
  ])('--redis %s is refused as an invalid address, without its password', async (url, problem) => {
    const { code, stderr } = await importing(url, folder())
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringContaining(`--redis is not a valid address: ${problem}`),
    })
    expect(stderr).toContain('Write it like redis://user@host:6379')
    expect(stderr).not.toContain('hunter2')
  })
})
