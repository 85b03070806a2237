import { expect, onTestFinished, test } from 'vitest'
import { act, look, type Setup, scratchFile } from '../../../../test/support/processes/processes.ts'
import { until } from '../../../../test/support/until.ts'
import { App } from '../../src/app/app.ts'
import type { PolicyInput } from '../../src/core/policy/policy.ts'
import { checkJob } from '../../src/store/conformance/bench/checks.ts'

const LETTERS = 300
const WHO = { actor: 'ann', reason: 'the gateway is back' }
const policy: PolicyInput = { deadLetter: 'queue', orphan: 'requeue', lease: { ttl: '1s' } }

/** Jobs that fail in this process, and are set aside for others to replay. */
async function makeLetters(app: App): Promise<void> {
  app.job('act', {
    policy,
    run: () => {
      throw new Error('the gateway is down')
    },
  })
  const worker = await app.makeWorker({ concurrency: 100 })
  await app.submitMany('act', Array(LETTERS).fill({ do: 'return' }))
  const store = await app.store()
  await until('all have failed', async () => {
    await worker.tick()
    return (await store.countDeadLetters({})).letters === LETTERS
  })
  await worker.stop()
}

test('a bulk replay by two processes replays every letter exactly once, although one process is killed [F1]', async () => {
  const file = scratchFile()
  const app = new App({ store: `sqlite:${file}` })
  onTestFinished(() => app.stop())
  await makeLetters(app)
  const { replay } = await app.replays.plan({ type: 'act', rate: 50, ...WHO })
  const id = replay?.id ?? ''
  const setup: Setup = { file, types: { act: policy }, worker: { pollMs: 50, maintenanceMs: 100 } }
  const [steady, killed] = [act(setup), act(setup)]
  for (const process of [steady, killed]) await process.says({ said: 'ready' })
  const store = look(file)
  const submitted = async () => (await store.replay({ id }))?.submitted ?? 0

  await app.replays.start(id, WHO)
  await until('some letters are replayed', async () => (await submitted()) >= 20)
  killed.kill('SIGKILL')
  await killed.ended
  expect(await submitted()).toBeLessThan(LETTERS)
  act(setup)
  await until('all is done', async () => {
    const { jobs } = await store.replayCounts({ id })
    return jobs.complete === LETTERS
  })

  expect(await store.replay({ id })).toMatchObject({ state: 'done', submitted: LETTERS, skipped: 0 })
  const letters = await store.deadLetters({ afterOffset: 0, limit: 2 * LETTERS })
  const jobs = await store.jobs({ limit: 4 * LETTERS })
  const made = jobs.filter(({ retriedFrom }) => retriedFrom !== null)
  expect(letters.map(({ replays }) => replays)).toEqual(Array(LETTERS).fill(1))
  expect(made.map(({ retriedFrom }) => retriedFrom).toSorted()).toEqual(letters.map(({ jobId }) => jobId).toSorted())
  expect(made.map(({ id: job }) => job).toSorted()).toEqual(letters.map(({ replayedAs }) => replayedAs).toSorted())
  for (const row of made.slice(0, 50)) checkJob(row, await store.events({ id: row.id }))
})
