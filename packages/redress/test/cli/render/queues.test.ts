import { afterEach, beforeEach, expect, test } from 'vitest'
import { json, redress } from '../command.ts'
import { type PreparedStore, prepareStore } from '../prepared-store.ts'

let store: PreparedStore
let at: string[]
beforeEach(async () => {
  store = await prepareStore()
  at = ['--data', store.data]
})
afterEach(() => store.remove())

test('the CLI pauses and resumes a queue, and the list shows who paused it and why [D34]', async () => {
  const reason = 'the disk is nearly full'
  const paused = await redress(['queues', 'pause', 'default', '--for', '30m', '--reason', reason, ...at])
  expect(paused).toMatchObject({
    code: 0,
    stdout: 'Queue default is paused: queued jobs do not start for 30 m; running jobs continue.\n',
  })
  expect(paused.stderr).toContain('redress queues resume default')
  const { stdout } = await redress(['queues', 'list', ...at])
  expect(stdout).toMatch(/OLDEST +PAUSED$/m)
  expect(stdout).toMatch(/^default +pdf\.convert .* by tess: the disk is nearly full \(until .*Z\)$/m)
  const queues = (await json(['queues', ...at])) as { paused: unknown }[]
  expect(queues[0]?.paused).toMatchObject({ by: 'tess', reason })

  const resumed = await redress(['queues', 'resume', 'default', '--reason', 'there is room', ...at])
  expect(resumed).toMatchObject({ code: 0, stdout: 'Queue default is resumed.\n' })
})

test('an unknown queue is refused with the known names, and a reason is required', async () => {
  const unknown = await redress(['queues', 'pause', 'uploads', '--reason', 'full', ...at])
  expect(unknown).toMatchObject({ code: 3 })
  expect(unknown.stderr).toContain('There is no queue uploads; known queues: default.')
  expect(await redress(['queues', 'pause', 'default', ...at])).toMatchObject({ code: 2 })
})
