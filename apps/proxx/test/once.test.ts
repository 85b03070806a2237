import { beforeAll, expect, test } from 'vitest'
import { needsFfmpeg } from './clips.ts'
import { Rig } from './rig.ts'

needsFfmpeg()
const rig = Rig.open()
let people: Awaited<ReturnType<Rig['serve']>>

beforeAll(async () => {
  people = await rig.serve()
})

const retriesOf = async (id: string) => (await rig.app.jobs.list({ retriedFrom: id })).jobs.map((job) => job.id)

test('two retries with the same id make one job, and a conflicting one is refused [P41]', async () => {
  const { operator } = people
  const failed = await rig.submit(rig.spec(['/nowhere/a.mov']))
  const id = rig.app.newId()
  const path = `/proxx/jobs/${failed.id}/retry?id=${id}`
  const first = await operator.post(path, { reason: 'it is back' })
  const again = await operator.post(path, { reason: 'it is back' })
  expect([first, again]).toMatchObject([
    { status: 422, json: { error: { code: 'INPUT_MISSING', jobId: id }, job: { retriedFrom: failed.id } } },
    { status: 422, json: { error: { jobId: id } } },
  ])
  const other = await operator.post(path, { reason: 'it is back', spec: rig.spec(['/nowhere/b.mov']) })
  expect(other).toMatchObject({ status: 409, json: { error: { code: 'JOB_WRONG_STATE', jobId: id } } })
  expect(await retriesOf(failed.id)).toEqual([id])
  expect(rig.lines(id).filter(({ to }) => to === 'failed')).toHaveLength(1)
})

test('an invalid id, or another submission under a taken id, is refused', async () => {
  const { operator } = people
  const id = rig.app.newId()
  const spec = rig.spec(['/nowhere/a.mov'])
  expect((await operator.post(`/proxx/jobs?id=${id}`, spec)).json.job).toMatchObject({ id, status: 'failed' })
  const other = await operator.post(`/proxx/jobs?id=${id}`, { ...spec, sources: ['/nowhere/b.mov'] })
  expect(other).toMatchObject({ status: 409, json: { error: { code: 'JOB_WRONG_STATE', jobId: id } } })
  const path = `/proxx/jobs?id=${id}&id=${rig.app.newId()}`
  expect(await operator.post(path, spec)).toMatchObject({ status: 400, json: { error: { code: 'OPTION_INVALID' } } })
})

test('a retry form that is sent twice makes one job; a corrected form makes another [P41]', async () => {
  const { operator } = people
  const failed = await rig.submit(rig.spec(['/nowhere/a.mov']))
  const headers = { accept: 'text/html' }
  const { text } = await operator.get(`/proxx/jobs/${failed.id}`, headers)
  const id = /name="id" value="([^"]+)"/.exec(text)?.[1] ?? ''
  const send = (more: object) => {
    const body = new URLSearchParams({ id, reason: 'it is back', ...more })
    return operator.ask(`/proxx/jobs/${failed.id}/retry`, { method: 'POST', body, headers })
  }
  const same = { spec: JSON.stringify(failed.spec) }
  const answers = [await send(same), await send(same)]
  // What was refused is shown with the form; sent again, it leads to the job that it was recorded as.
  expect(answers.map(({ status }) => status)).toEqual([422, 303])
  expect(answers[1]?.headers.get('location')).toBe(`/proxx/jobs/${id}`)
  expect(answers[0]?.text).not.toContain(`value="${id}"`)
  expect(await retriesOf(failed.id)).toEqual([id])
  await send({ spec: JSON.stringify(rig.spec(['/nowhere/b.mov'])) })
  expect(await retriesOf(failed.id)).toHaveLength(2)
})
