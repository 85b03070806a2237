import { expect, onTestFinished, test } from 'vitest'
import { act, scratchFile } from '../../../../test/support/processes/processes.ts'
import { App } from '../../src/app/app.ts'
import type { HubEvent } from '../../src/app/events/hub-events.ts'

const types = { act: {} }

test('what another process does to a job is told to the subscribers of this one', async () => {
  const file = scratchFile()
  const app = new App({ store: `sqlite:${file}` })
  onTestFinished(() => app.stop())
  const job = app.job('act', { run: () => undefined })
  const worker = act({ file, types, worker: { pollMs: 50 } })
  await worker.says({ said: 'ready' })
  const subscription = app.hub.subscribe({ topics: ['type:act'] })
  await subscription.ready
  const { id } = await job.submit({ do: 'return' })
  const told: HubEvent[] = []
  for await (const event of subscription) {
    told.push(event)
    if (event.event === 'job.complete') break
  }
  expect(told.map(({ event }) => event).filter((event) => event !== 'job.started')).toEqual([
    'job.queued',
    'job.processing',
    'job.complete',
  ])
  expect(told.every(({ data }) => (data as { jobId: string }).jobId === id)).toBe(true)
  expect(app.hub.subscribers).toBe(0)
})
