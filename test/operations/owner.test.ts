import { describe, expect, test } from 'vitest'
import type { OperationInput } from '../../src/index.ts'
import { makeBench, refusal, WHO } from './bench.ts'

type Name = 'jobs.show' | 'jobs.events' | 'jobs.failures' | 'jobs.explain' | 'jobs.retry' | 'jobs.cancel'
const NAMES: readonly Name[] = [
  'jobs.show',
  'jobs.events',
  'jobs.failures',
  'jobs.explain',
  'jobs.retry',
  'jobs.cancel',
]
const inputOf = (name: Name, id: string, owner: string) =>
  ({ id, owner, ...(name === 'jobs.retry' || name === 'jobs.cancel' ? WHO : {}) }) as OperationInput<Name>

describe.each(NAMES)('E20 %s by somebody who may touch only their own', (name) => {
  test('a job of another is not there, in the same words as one that never was', async () => {
    const { app, submit } = await makeBench()
    const id = await submit(['ok'], { owner: 'bob' })
    const ownerless = await submit(['ok'])
    const missing = await refusal(app.perform(name, inputOf(name, 'none', 'ann')))
    for (const hidden of [id, ownerless]) {
      const refused = await refusal(app.perform(name, inputOf(name, hidden, 'ann')))
      expect(refused).toMatchObject({ code: 'JOB_NOT_FOUND', httpStatus: 404, action: missing.action })
      expect(refused.message.replace(hidden, 'ID')).toBe(missing.message.replace('none', 'ID'))
    }
    expect(await app.find(id)).toMatchObject({ status: 'queued', cancelRequestedAt: null })
  })

  test('where the policy says so, it is told that it is not theirs', async () => {
    const { app, submit } = await makeBench({ deny: 'forbid' })
    const id = await submit(['ok'], { owner: 'bob' })
    expect(await refusal(app.perform(name, inputOf(name, id, 'ann')))).toMatchObject({
      ...{ code: 'FORBIDDEN', httpStatus: 403, jobId: id },
    })
    expect(await app.find(id)).toMatchObject({ status: 'queued' })
  })

  test('their own is theirs', async () => {
    const { app, finish, submit } = await makeBench()
    const id =
      name === 'jobs.cancel' ? await submit(['ok'], { owner: 'ann' }) : await finish(['GW_4XX'], { owner: 'ann' })
    expect(await app.perform(name, inputOf(name, id, 'ann'))).toBeTruthy()
  })
})

test('without an owner, an operator reaches every job', async () => {
  const { app, finish } = await makeBench({ deny: 'forbid' })
  const id = await finish(['GW_4XX'], { owner: 'bob' })
  expect(await app.retry(id, WHO)).toMatchObject({ isDone: true })
})
