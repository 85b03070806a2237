import { join } from 'node:path'
import { expect, test } from 'vitest'
import { redress as makeApp } from '../../../src/index.ts'
import { folder, json, redress } from '../command.ts'

/** A store with one notice: refused by its receiver on one channel, and waiting for another that nobody has. */
async function toldStore(): Promise<string> {
  const data = folder()
  const app = makeApp({ store: `sqlite:${join(data, 'redress.db')}` })
  const policy = { notify: { failed: ['ops', 'pager'] } }
  app.job('work', { policy, run: () => Promise.reject(new Error('broken')) })
  app.channel('ops', {
    kind: 'kept',
    deliver: (_, { fail }) =>
      fail('CHANNEL_GONE', { context: { to: 'https://ops.example.org', answer: 'HTTP 410\u001b[31m' } }),
  })
  await app.submit('work', {})
  const worker = await app.makeWorker()
  await worker.tick()
  await worker.runDuties()
  await worker.tick()
  await app.stop()
  return data
}

test('notices list shows waiting notices with their reasons', async () => {
  const data = await toldStore()
  const { code, stdout, stderr } = await redress(['notices', 'list', '--data', data])
  expect(code).toBe(0)
  expect(stdout).toMatch(/^NOTICE\s+KIND\s+ABOUT\s+CHANNELS\s+STATE\s+REPEATS\s+AGE/)
  expect(stdout).toMatch(/1\s+failed\s+job:\S+\s+ops, pager\s+waiting for pager/)
  expect(stderr).toContain('Waiting: no program has declared the channel pager.')
})

test('notices deliveries shows what the receiver answered, and how to send it again', async () => {
  const data = await toldStore()
  const { stdout, stderr } = await redress(['notices', 'deliveries', '--failed', '--data', data])
  expect(stdout).toMatch(/failed\s+ops\s+failed\s+1\/6\s+https:\/\/ops.example.org\s+CHANNEL_GONE: HTTP 410/)
  expect(stdout).not.toContain('\u001b')
  const shown = (await json(['notices', 'deliveries', '--data', data])) as { id: string }[]
  const id = String(shown[0]?.id)
  expect(stderr).toContain(`jobs retry ${id}`)
  const again = await redress(['jobs', 'retry', id, '--reason', 'they are back', '--data', data])
  expect(again).toMatchObject({ code: 0, stdout: `Job ${id} is back in the queue.\n` })
})

test('notices test adds a notice in the name of the user', async () => {
  const data = await toldStore()
  const { code, stdout } = await redress(['notices', 'test', 'ops', '--reason', 'is it on?', '--data', data])
  expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.stringContaining('A test notice for ops') })
  const waiting = await json(['notices', 'list', '--waiting', '--limit', '1', '--data', data])
  expect(waiting).toMatchObject([{ kind: 'test', notice: { actor: 'tess', reason: 'is it on?' } }])
  const unknown = await redress(['notices', 'test', 'sms', '--reason', 'r', '--data', data])
  expect(unknown).toMatchObject({ code: 3, stderr: expect.stringContaining('known channels: ops') })
  expect((await redress(['notices', 'test', 'ops', '--data', data])).stderr).toContain('A reason is required')
})
