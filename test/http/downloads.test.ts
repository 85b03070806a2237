import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { type ArtifactStore, artifactStore } from '../../src/index.ts'
import { temporaryFolder } from '../support/sqlite.ts'
import { makeWorld, type World } from './world.ts'

async function worldWithFiles(): Promise<World & { artifacts: ArtifactStore; folder: string }> {
  const folder = temporaryFolder()
  const artifacts = await artifactStore({ url: `file:${folder}` })
  const world = await makeWorld({
    mounts: [
      (_server, { offerFile }) =>
        offerFile('step', ({ id }) => ({
          ...{ artifacts, key: `results/${id}.xml`, fileName: 'Ä "result"\r\n.xml', contentType: 'application/xml' },
        })),
    ],
  })
  await artifacts.put(`results/${world.jobs.ann.complete}.xml`, '<pages/>', { contentType: 'text/html' })
  return { ...world, artifacts, folder }
}

test('D9 D41 the file of a complete job is there for its owner, as an attachment, whole or in part', async () => {
  const { ask, jobs } = await worldWithFiles()
  const path = `/api/jobs/${jobs.ann.complete}/download`
  for (const as of ['owner', 'viewer', 'admin'] as const) {
    const { status, text, headers } = await ask(path, { as })
    expect([status, text, headers['content-type']]).toEqual([200, '<pages/>', 'application/xml'])
    expect(headers['content-disposition']).toBe(
      `attachment; filename="_ _result___.xml"; filename*=UTF-8''%C3%84%20%22result%22%0D%0A.xml`,
    )
    expect(headers['x-content-type-options']).toBe('nosniff')
  }
  const part = await ask(path, { as: 'owner', headers: { range: 'bytes=1-5' } })
  expect([part.status, part.text, part.headers['content-range']]).toEqual([206, 'pages', 'bytes 1-5/8'])
  expect(await ask(path, { as: 'owner', headers: { range: 'bytes=100-' } })).toMatchObject({ status: 416 })
  const head = await ask(path, { as: 'owner', method: 'HEAD' })
  expect(head).toMatchObject({ status: 200, text: '', headers: { 'content-length': '8' } })
})

test('what is not what was stored is not given out as if it were', async () => {
  const { ask, jobs, artifacts, folder } = await worldWithFiles()
  const download = (id: string) => ask(`/api/jobs/${id}/download`, { as: 'admin' })
  const { ann, bob } = jobs
  writeFileSync(join(folder, `results/${ann.complete}.xml`), '<Pages/>')
  const refused = await download(ann.complete)
  expect([refused.status, refused.json.error.code]).toEqual([500, 'ARTIFACT_CORRUPT'])
  // Of one whose beginning is on its way already, the end is never sent.
  const large = Buffer.alloc(2 ** 21)
  await artifacts.put(`results/${bob.complete}.xml`, large)
  large[2 ** 20] = 1
  writeFileSync(join(folder, `results/${bob.complete}.xml`), large)
  await expect(download(bob.complete)).rejects.toThrow('aborted')
})

test('many downloads over one connection leave nothing behind on it', async () => {
  const { ask, jobs } = await worldWithFiles()
  const warnings: string[] = []
  const keep = ({ name }: Error) => void warnings.push(name)
  process.on('warning', keep)
  onTestFinished(() => void process.off('warning', keep))
  // One after another, so that each goes the way of the one before it.
  for (let i = 0; i < 12; i++) {
    expect((await ask(`/api/jobs/${jobs.ann.complete}/download`, { as: 'owner' })).status).toBe(200)
  }
  expect(warnings).not.toContain('MaxListenersExceededWarning')
})

test('D9 D10 D41 before that it is not ready, afterwards it is gone, and to others it is not there', async () => {
  const { ask, jobs, artifacts } = await worldWithFiles()
  const refusals: [string, 'owner' | 'stranger' | 'scoped', number, string][] = [
    [jobs.ann.queued, 'owner', 409, 'NOT_READY'],
    [jobs.ann.failed, 'owner', 409, 'NOT_READY'],
    [jobs.bob.complete, 'owner', 404, 'JOB_NOT_FOUND'],
    [jobs.bob.forbidden, 'owner', 403, 'FORBIDDEN'],
    [jobs.ann.forbidden, 'owner', 404, 'NOTHING_TO_DOWNLOAD'],
    [jobs.ann.complete, 'stranger', 401, 'SIGN_IN_REQUIRED'],
    [jobs.ann.complete, 'scoped', 403, 'ROLE_TOO_LOW'],
  ]
  for (const [id, as, status, code] of refusals) {
    const answer = await ask(`/api/jobs/${id}/download`, { as })
    expect([answer.status, answer.json.error.code]).toEqual([status, code])
  }
  await artifacts.remove(`results/${jobs.ann.complete}.xml`)
  const gone = await ask(`/api/jobs/${jobs.ann.complete}/download`, { as: 'owner' })
  expect([gone.status, gone.json.error.code]).toEqual([404, 'EXPIRED'])
})
