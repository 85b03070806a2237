import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readTasks } from '../../../../../test/support/dead-letter-tasks.ts'
import { folder, json, redress } from '../command.ts'
import { type PreparedStore, prepareStore } from '../prepared-store.ts'

let prepared: PreparedStore
beforeAll(async () => {
  prepared = await prepareStore()
})
afterAll(() => prepared.remove())

const call = (...args: string[]) => redress([...args, '--data', prepared.data])
const answer = (...args: string[]) => json([...args, '--data', prepared.data]) as Promise<Record<string, unknown>>
const WHY = ['--reason', 'the gateway is back']

test('dead letters are exported to a file that a program reads, whole or not at all', async () => {
  const out = join(folder(), 'letters.pb')
  const command = ['dead-letters', 'export', '--type', 'pdf.fetch', '--format', 'protobuf', '--out', out]
  expect((await call(...command)).stdout).toBe(`Exported 1 dead letter to ${out}.\n`)
  const [task] = await readTasks(readFileSync(out))
  expect(task).toMatchObject({ task: { id: prepared.ids.letter, type: 'pdf.fetch' }, failureCode: 'GW_5XX' })
  const again = await call(...command)
  expect([again.code, again.stderr]).toEqual([2, expect.stringContaining('already exists')])

  const lines = await call('dead-letters', 'export', '--code', 'GW_5XX')
  expect(JSON.parse(lines.stdout)).toMatchObject({ jobId: prepared.ids.letter, offset: task.offset })
})

test('a dead letter is shown, planned for, replayed once, and purged', async () => {
  const deadLetters = await json(['dead-letters', 'list', '--type', 'pdf.fetch', '--data', prepared.data])
  const offset = String((deadLetters as { offset: number }[])[0]?.offset)
  expect(deadLetters).toMatchObject([{ jobId: prepared.ids.letter, failure: { code: 'GW_5XX' }, replays: 0 }])

  const shown = await call('dead-letters', 'show', offset)
  expect(shown.stdout).toMatch(/^can be replayed +yes$/m)
  expect(shown.stdout).toContain('GW_5XX  It kept failing.')
  expect(shown.stderr).toContain(`dead-letters replay ${offset}`)

  const planned = await call('replays', 'plan', '--code', 'GW_5XX', '--rate', '90/m', '--canary', '1', ...WHY)
  expect(planned.stdout).toMatch(/^Planned replay \S+: 1 will run, 0 will be skipped\. It runs when it is started\.$/m)
  expect(planned.stdout).toContain('Not checked here: 1 of pdf.fetch.')
  const id = /Planned replay (\S+):/.exec(planned.stdout)?.[1] ?? ''

  const replayed = await answer('dead-letters', 'replay', offset, '--input', '{"edited":true}', ...WHY)
  expect(replayed).toMatchObject({ isDone: true, job: { retriedFrom: prepared.ids.letter } })
  const again = await call('dead-letters', 'replay', offset, ...WHY)
  expect([again.code, again.stderr]).toEqual([4, expect.stringContaining('it was replayed already, as job')])

  const started = await call('replays', 'start', id, ...WHY)
  expect(started.stdout).toContain(`Replay ${id} is started`)
  expect((await call('replays', 'pause', id, ...WHY)).code).toBe(0)
  const replay = await call('replays', 'show', id)
  expect(replay.stdout).toMatch(/^state +paused$/m)
  expect(replay.stdout).toMatch(/^rate +1\.5 a second$/m)
  expect(replay.stdout).toMatch(/^progress +0 of 1: 0 replayed, 0 skipped, 1 to come$/m)
  expect(replay.stderr).toContain(`replays resume ${id}`)
  expect((await call('replays')).stdout).toMatch(new RegExp(`^${id} +paused +1 `, 'm'))

  const purge = ['dead-letters', 'purge', '--replayed', 'yes', '--yes', ...WHY]
  expect((await call(...purge)).stdout).toContain('Purged 1 dead letter;')
  expect((await call('dead-letters', 'list')).stderr).toBe(
    "No matching dead letters. A job type keeps them if its policy has deadLetter: 'queue'.\n",
  )
}, 120_000)

test('a purge without a reason or a filter is refused', async () => {
  const nameless = await call('dead-letters', 'purge', '--yes', ...WHY)
  expect([nameless.code, nameless.stderr]).toEqual([2, expect.stringContaining('A filter is missing')])
  const reasonless = await call('replays', 'plan', '--all')
  expect([reasonless.code, reasonless.stderr]).toEqual([2, expect.stringContaining('REASON_REQUIRED')])
  expect((await call('replays', 'plan', '--all', '--rate', 'fast', ...WHY)).stderr).toContain(`write '5/s'`)
})
