import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { until } from '../../../../../test/support/until.ts'
import { startServer } from '../../../src/http/server.ts'
import { type App, redress as makeApp } from '../../../src/index.ts'
import { folder, redress, running } from '../command.ts'

/** A program whose job logs each step that the test allows; commands reach it from other processes. */
async function scene(kind: 'store' | 'server') {
  const data = folder()
  const app: App = makeApp({ store: `sqlite:${join(data, 'redress.db')}` })
  const steps: (() => void)[] = []
  app.job('steps', {
    run: async ({ count }: { count: number }, attempt) => {
      for (let step = 1; step <= count; step++) {
        attempt.log(`step ${step}\nof ${count}`, { step, token: 'hunter2hunter2' })
        attempt.progress({ done: step, total: count, note: `at step ${step}` })
        await new Promise<void>((resolve) => steps.push(resolve))
      }
    },
  })
  app.job('chatty', {
    run: (_: unknown, attempt) => {
      for (let i = 1; i <= 1_003; i++) attempt.log(`line ${i}`)
    },
  })
  await app.work()
  onTestFinished(() => app.stop({ graceMs: 0 }))
  const next = async () => (await until('a step waits', () => steps.shift()))()
  if (kind === 'store') return { app, at: ['--data', data], next }
  const server = await startServer({ app, port: 0, auth: 'none' })
  onTestFinished(() => server.stop())
  return { app, at: ['--server', server.url], next }
}

describe.each(['store', 'server'] as const)('jobs logs, by the %s', (kind) => {
  test('prints each line with its fields, and --follow goes on until the job has ended', async () => {
    const { app, at, next } = await scene(kind)
    const { id } = await app.submit('steps', { count: 3 })
    const following = await running(['jobs', 'logs', id, '--follow', ...at], { says: 'step 1' })
    await next()
    await until('the second line is printed', () => following.stdout().includes('step 2'))
    await next()
    await next()
    expect(await following.ended).toBe(0)
    const line = (step: number) =>
      `\\S+Z {2}attempt 1 {2}step ${step}\\n {4}of 3 {2}step=${step} token=\\[redacted\\]\\n`
    expect(following.stdout()).toMatch(new RegExp(`^${line(1)}${line(2)}${line(3)}$`))
  })

  test('jobs show prints the progress with its note, and the last lines', async () => {
    const { app, at, next } = await scene(kind)
    const { id } = await app.submit('steps', { count: 2 })
    await until('the line is stored', async () => (await app.jobs.logs(id)).lines.length === 1)
    const { stdout } = await redress(['jobs', 'show', id, ...at])
    expect(stdout).toMatch(/progress\s+50 % \(1 of 2\), at step 1\n/)
    expect(stdout).toMatch(/\nlog \(1 lines\)\n\S+Z {2}attempt 1 {2}step 1\n {4}of 2/)
    await next()
    await next()
  })
})

test('jobs logs says how many lines were dropped, pages on, and takes the newest or those of an attempt', async () => {
  const { app, at } = await scene('store')
  const { id } = await app.submit('chatty', {})
  await until('it is complete', async () => (await app.jobs.find(id))?.status === 'complete')
  const all = await redress(['jobs', 'logs', id, '--limit', '2', ...at])
  expect(all.stdout.match(/line \d+/g)).toEqual(['line 1', 'line 2'])
  const cursor = /More: add --cursor (\d+)/.exec(all.stderr)?.[1] ?? ''
  expect(all.stderr).toContain('Attempt 1 logged too much: 3 more lines were dropped.')
  const second = await redress(['jobs', 'logs', id, '--limit', '1', '--cursor', cursor, '--json', ...at])
  expect(JSON.parse(second.stdout)).toMatchObject([{ attempt: 1, line: 3, message: 'line 3', fields: null }])
  const newest = await redress(['jobs', 'logs', id, '--tail', '1', '--jsonl', ...at])
  expect(JSON.parse(newest.stdout)).toMatchObject({ line: 1_000 })
  expect((await redress(['jobs', 'logs', id, '--attempt', '2', ...at])).stderr).toMatch(/^No lines/)
  expect(await redress(['jobs', 'logs', 'none', ...at])).toMatchObject({ code: 3 })
  const shown = await redress(['jobs', 'show', id, ...at])
  expect(shown.stdout).toMatch(
    /log \(the last 10 of 1000 lines: .*redress jobs logs \S+ --data .*; 3 more were dropped\)/,
  )
  expect(shown.stdout).toContain('line 1000')
  expect(shown.stdout).not.toContain('line 990\n')
})

test('events shows log lines and progress', async () => {
  const { app, at, next } = await scene('store')
  const following = await running(['events', ...at], { says: 'Following events' })
  await app.submit('steps', { count: 1 })
  await until('both are shown', () =>
    [/job\.log .*line 1, message step 1/, /job\.progress .*progress 1, done 1, total 1, note at step 1/].every((one) =>
      one.test(following.stdout()),
    ),
  )
  following.child.kill('SIGINT')
  expect(await following.ended).toBe(0)
  await next()
})
