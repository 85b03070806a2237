import { execFileSync } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inThread, redress } from 'redress'
import { expect, onTestFinished, test } from 'vitest'
import { keepingLog } from '../../../../test/support/scene.ts'
import { systemClock } from '../../src/runtime/clock.ts'

/** Work that takes this long and leaves the event loop free. */
const waiting = (ms: number) => new Promise<void>((resolve) => void systemClock.setTimer(ms, resolve))

function busy(ms: number): void {
  const endMs = performance.now() + ms
  while (performance.now() < endMs);
}

function scene() {
  const log = keepingLog()
  const app = redress({ store: 'sqlite::memory:', log })
  onTestFinished(() => app.stop({ graceMs: 0 }))
  const blocks = () => log.lines.filter(({ message }) => message.includes('blocked the event loop'))
  return { app, log, blocks }
}

test('a handler that blocks the event loop at once is named, with the time, once a minute', async () => {
  const { app, blocks } = scene()
  const resize = app.job('resize', { run: () => busy(700) })
  const mail = app.job('mail', { run: () => waiting(300) })
  await app.work({ pollMs: 20 })
  const { id } = await mail.submit(1)
  for (let i = 0; i < 3; i++) await resize.submitAndWait(i)
  await mail.result(id)
  expect(blocks()).toEqual([
    {
      level: 'warn',
      message: expect.stringMatching(/^resize blocked the event loop of this worker for .*inThread\(\)\.$/),
      fields: expect.objectContaining({ type: 'resize', attempt: 1, blocked_ms: expect.any(Number) }),
    },
  ])
  expect(Number((blocks()[0]?.fields as { blocked_ms?: number } | undefined)?.blocked_ms)).toBeGreaterThanOrEqual(700)
  const exposed = await app.metrics.text()
  const seconds = Number(/event_loop_blocked_seconds_total\{type="resize"\} ([\d.]+)/.exec(exposed)?.[1])
  expect(seconds).toBeGreaterThanOrEqual(2.1)
  expect(exposed).toMatch(/event_loop_blocked_seconds_total\{type="mail"\} 0\n/)
})

test('a handler that blocks after an await and then ends is named, though another type runs', async () => {
  const { app, blocks } = scene()
  const mail = app.job('mail', { run: () => waiting(3_000) })
  const quick = app.job('quick', { run: () => waiting(500) })
  const resize = app.job('resize', {
    async run() {
      await waiting(20)
      busy(1_600)
    },
  })
  await app.work({ pollMs: 20 })
  await mail.submit(1)
  await quick.submit(1)
  await resize.submitAndWait(1)
  expect(blocks().map(({ fields }) => fields)).toEqual([expect.objectContaining({ type: 'resize' })])
})

test('a block that several types can have caused names them all, and the next one names the type', async () => {
  const { app, blocks } = scene()
  const mail = app.job('mail', { run: () => waiting(5_000) })
  const quick = app.job('quick', { run: () => waiting(800) })
  const resize = app.job('resize', {
    async run() {
      await waiting(20)
      busy(1_600)
      await waiting(50)
    },
  })
  await app.work({ pollMs: 20 })
  await mail.submit(1)
  await quick.submit(1)
  await resize.submitAndWait(1)
  expect(blocks().map(({ fields }) => fields)).toEqual([
    expect.objectContaining({ types: expect.arrayContaining(['mail', 'quick', 'resize']) }),
  ])
  expect(blocks()[0]?.message).toContain('If it happens again, the warning names the type.')
  const blocked: string[] = []
  const { id } = await app.submit('resize', 2)
  await resize.result(id)
  const exposed = await app.metrics.text()
  for (const [, type = '', seconds] of exposed.matchAll(/event_loop_blocked_seconds_total\{type="(\w+)"\} ([\d.]+)/g)) {
    if (Number(seconds) > 0) blocked.push(type)
  }
  expect(blocked).toEqual(['resize'])
  expect(blocks().at(-1)?.fields).toMatchObject({ type: 'resize' })
})

test('a type whose handler runs in a thread is not blamed for a block', async () => {
  const { app, blocks } = scene()
  const file = join(mkdtempSync(join(tmpdir(), 'redress-blocked-')), 'compute.mjs')
  writeFileSync(
    file,
    'export default (ms) => { const end = performance.now() + ms; while (performance.now() < end); return 1 }',
  )
  const compute = app.job('compute', { run: inThread(file) })
  const resize = app.job('resize', {
    async run() {
      await waiting(20)
      busy(1_600)
      await waiting(20)
    },
  })
  await app.work({ pollMs: 20 })
  const { id } = await compute.submit(2_500)
  await resize.submitAndWait(1)
  expect(await compute.result(id)).toMatchObject({ kind: 'complete' })
  expect(blocks().map(({ fields }) => fields)).toEqual([expect.objectContaining({ type: 'resize' })])
})

test('a handler that waits synchronously is named, and the warning says that it used no processor time', async () => {
  const { app, blocks } = scene()
  const job = app.job('archive', { run: () => void execFileSync('sleep', ['1']) })
  await app.work({ pollMs: 20 })
  await job.submitAndWait(1)
  expect(blocks()).toMatchObject([
    { message: expect.stringContaining('almost no processor time'), fields: { type: 'archive' } },
  ])
})

test('a worker that stood still without using the processor blames no type', async () => {
  const { app, log, blocks } = scene()
  const mail = app.job('mail', { run: () => waiting(2_500) })
  await app.work({ pollMs: 20 })
  const { id } = await mail.submit(1)
  await waiting(300)
  // Like a process that is stopped and continued: the handler waits, and no code of it runs.
  execFileSync('sleep', ['1.5'])
  await mail.result(id)
  expect(blocks()).toEqual([])
  expect(log.lines.filter(({ message }) => message.includes('stood still'))).toMatchObject([
    { message: expect.stringContaining('suspended'), fields: { types: ['mail'] } },
  ])
  expect(await app.metrics.text()).toMatch(/event_loop_blocked_seconds_total\{type="mail"\} 0\n/)
})

test('handlers that only wait cause no warning', async () => {
  const { app, blocks } = scene()
  const mail = app.job('mail', { run: () => waiting(1_500) })
  await app.work({ pollMs: 20 })
  await mail.submitAndWait(1)
  expect(blocks()).toEqual([])
})
