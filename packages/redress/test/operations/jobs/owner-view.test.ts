import { describe, expect, onTestFinished, test } from 'vitest'
import { Scene } from '../../../../../test/support/scene.ts'
import { failureCodes, type OperationInput, type PolicyInput } from '../../../src/index.ts'
import type { Caller } from '../../../src/operations/caller.ts'
import { makeBench, refusal, WHO } from '../bench.ts'

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

describe.each(NAMES)('%s by an owner', (name) => {
  test('an owner gets the same answer for a foreign job as for a missing one [E20]', async () => {
    const { app, submit } = await makeBench()
    const id = await submit(['ok'], { owner: 'bob' })
    const ownerless = await submit(['ok'])
    const missing = await refusal(app.perform(name, inputOf(name, 'none', 'ann')))
    for (const hidden of [id, ownerless]) {
      const refused = await refusal(app.perform(name, inputOf(name, hidden, 'ann')))
      expect(refused).toMatchObject({ code: 'JOB_NOT_FOUND', httpStatus: 404, action: missing.action })
      expect(refused.message.replace(hidden, 'ID')).toBe(missing.message.replace('none', 'ID'))
    }
    expect(await app.jobs.find(id)).toMatchObject({ status: 'queued', cancelRequestedAt: null })
  })

  test('an owner is told that a job is not theirs when the policy says so [E20]', async () => {
    const { app, submit } = await makeBench({ deny: 'forbid' })
    const id = await submit(['ok'], { owner: 'bob' })
    expect(await refusal(app.perform(name, inputOf(name, id, 'ann')))).toMatchObject({
      ...{ code: 'FORBIDDEN', httpStatus: 403, jobId: id },
    })
    expect(await app.jobs.find(id)).toMatchObject({ status: 'queued' })
  })

  test('an owner acts on their own job [E20]', async () => {
    const { app, finish, submit } = await makeBench()
    const id =
      name === 'jobs.cancel' ? await submit(['ok'], { owner: 'ann' }) : await finish(['GW_4XX'], { owner: 'ann' })
    expect(await app.perform(name, inputOf(name, id, 'ann'))).toBeTruthy()
  })
})

test('without an owner, an operator reaches every job', async () => {
  const { app, finish } = await makeBench({ deny: 'forbid' })
  const id = await finish(['GW_4XX'], { owner: 'bob' })
  expect(await app.jobs.retry(id, WHO)).toMatchObject({ isDone: true })
})

describe('a type that maps engine codes for owners', () => {
  const codes = failureCodes({
    OWN: { fault: 'caller', retry: 'never', message: 'It is the file.' },
    OTHER: { fault: 'unknown', retry: 'transient', message: 'It failed.', waiting: 'It is tried again.' },
  })
  const ann: Caller = { name: 'ann', role: 'owner', account: 'ann', scopes: null, isPerson: true }
  const olga: Caller = { ...ann, name: 'olga', role: 'operator', account: null }
  const READ = ['jobs.show', 'jobs.list', 'jobs.events', 'jobs.failures', 'jobs.explain'] as const

  async function lost(policy: PolicyInput) {
    const scene = new Scene()
    onTestFinished(() => scene.end())
    scene.app.job('work', { codes, ownersSee: 'OTHER', policy, run: () => new Promise(() => undefined) })
    const worker = await scene.worker()
    const { id } = await scene.app.submit('work', {}, { owner: 'ann' })
    await scene.pass(0)
    return { scene, id, worker }
  }

  async function answers(scene: Scene, caller: Caller, id: string): Promise<Map<string, string>> {
    const found = new Map<string, string>()
    for (const name of READ) {
      const output = await scene.app.performAs(caller, name, name === 'jobs.list' ? {} : { id })
      found.set(name, JSON.stringify(output))
    }
    return found
  }

  /** What this caller finds by a code: the ids, and how many they are. */
  async function found(scene: Scene, caller: Caller, code: string): Promise<[string[], unknown]> {
    const { jobs } = (await scene.app.performAs(caller, 'jobs.list', { code })) as { jobs: { id: string }[] }
    return [jobs.map(({ id }) => id), await scene.app.performAs(caller, 'jobs.count', { code })]
  }

  async function expectShown(scene: Scene, id: string, engineCode: string): Promise<void> {
    for (const [name, answer] of await answers(scene, ann, id)) {
      expect(answer, name).not.toContain(engineCode)
      expect(answer, name).toContain('OTHER')
    }
    for (const [name, answer] of await answers(scene, olga, id)) expect(answer, name).toContain(engineCode)
  }

  test('owners see the mapped code of a lost worker', async () => {
    const { scene, id, worker } = await lost({ orphan: 'fail' })
    worker.crash()
    const other = await scene.worker()
    await scene.pass(60_000)
    await other.maintain()
    await expectShown(scene, id, 'WORKER_LOST')
    expect(await found(scene, ann, 'OTHER')).toEqual([[id], { count: 1, isMore: false }])
    expect(await found(scene, ann, 'WORKER_LOST')).toEqual([[], { count: 0, isMore: false }])
    expect(await found(scene, olga, 'OTHER')).toEqual([[], { count: 0, isMore: false }])
    expect(await found(scene, olga, 'WORKER_LOST')).toEqual([[id], { count: 1, isMore: false }])
    expect(await scene.app.performAs(ann, 'jobs.show', { id })).toMatchObject({
      status: 'failed',
      errorCode: 'OTHER',
      errorMessage: 'It failed.',
    })
  })

  test('owners see the mapped code of a job marked as failed', async () => {
    const { scene, id, worker } = await lost({ orphan: 'report' })
    worker.crash()
    const other = await scene.worker()
    await scene.pass(60_000)
    await other.maintain()
    await scene.app.jobs.markFailed(id, { actor: 'olga', reason: 'its machine burnt down' })
    await expectShown(scene, id, 'MARKED_FAILED')
  })

  test('own codes are unchanged, and a type without a mapping shows the codes of the engine', async () => {
    const scene = new Scene()
    onTestFinished(() => scene.end())
    scene.app.job('own', { codes, ownersSee: 'OTHER', run: (_: unknown, attempt) => attempt.fail('OWN') })
    scene.app.job('plain', { codes, policy: { timeout: { attempt: '1s' } }, run: () => new Promise(() => undefined) })
    await scene.worker()
    const own = await scene.app.submit('own', {}, { owner: 'ann' })
    const plain = await scene.app.submit('plain', {}, { owner: 'ann' })
    await scene.pass(0)
    await scene.pass(2_000)
    expect(await scene.app.performAs(ann, 'jobs.show', { id: own.id })).toMatchObject({ errorCode: 'OWN' })
    expect(await scene.app.performAs(ann, 'jobs.show', { id: plain.id })).toMatchObject({ errorCode: 'TIMEOUT' })
    expect(await found(scene, ann, 'OWN')).toEqual([[own.id], { count: 1, isMore: false }])
    expect(await found(scene, ann, 'TIMEOUT')).toEqual([[plain.id], { count: 1, isMore: false }])
    expect(await found(scene, ann, 'OTHER')).toEqual([[], { count: 0, isMore: false }])
  })

  test('a mapping to an unknown code is refused when the type is declared', () => {
    const scene = new Scene()
    onTestFinished(() => scene.end())
    expect(() => scene.app.job('work', { codes, ownersSee: 'TIMEOUT' as never, run: () => 1 })).toThrow(
      "ownersSee must be one of the type's own codes; got TIMEOUT.",
    )
  })
})
