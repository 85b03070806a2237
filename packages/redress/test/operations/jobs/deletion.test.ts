import { expect, test } from 'vitest'
import { makeBench, refusal, WHO } from '../bench.ts'

test('a finished job is deleted, and a second deletion finds no job', async () => {
  const { app, finish } = await makeBench()
  const id = await finish(['ok'])
  expect(await app.jobs.delete(id, WHO)).toEqual({
    isDone: true,
    did: `Job ${id} is deleted.`,
    deleted: { id, type: 'step', status: 'complete' },
    filesRemovedBy: null,
  })
  expect(await app.jobs.find(id)).toBeNull()
  expect(await refusal(app.jobs.delete(id, WHO))).toMatchObject({ code: 'JOB_NOT_FOUND' })
  const { entries } = await app.perform('audit.list', { id })
  expect(entries[0]).toMatchObject({ act: 'jobs.delete', ...WHO, data: { type: 'step', status: 'complete' } })
})

test('a job that is not finished is not deleted', async () => {
  const { app, submit } = await makeBench()
  const id = await submit(['ok'])
  const refused = await refusal(app.jobs.delete(id, WHO))
  expect(refused).toMatchObject({ code: 'JOB_WRONG_STATE', message: expect.stringContaining('this one is queued') })
})

test('a job with an open dead letter is deleted only with force', async () => {
  const { app, finish } = await makeBench({ deadLetter: 'queue' })
  const id = await finish(['GW_4XX'])
  const refused = await refusal(app.jobs.delete(id, WHO))
  expect(refused).toMatchObject({
    code: 'JOB_WRONG_STATE',
    message: expect.stringContaining('its dead letter is open'),
  })
  expect((await app.jobs.delete(id, { ...WHO, dryRun: true, force: true })).isDone).toBe(false)
  expect(await app.jobs.find(id)).not.toBeNull()
  expect((await app.jobs.delete(id, { ...WHO, force: true })).isDone).toBe(true)
  expect((await app.perform('dead-letters.list', {})).deadLetters).toEqual([])
})

test('subscribers of a job hear that it was deleted', async () => {
  const { app, finish } = await makeBench()
  const id = await finish(['ok'])
  const events = app.hub.subscribe({ topics: [`job:${id}`] })
  await events.ready
  await app.jobs.delete(id, WHO)
  const { value } = await events.next()
  await events.return()
  expect(value).toMatchObject({ event: 'job.deleted', data: { kind: 'deleted', jobId: id, status: 'complete' } })
  expect(JSON.stringify(value)).not.toContain(WHO.reason)
})
