import { execFile, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { temporaryFolder } from '../../../../../test/support/stores/sqlite.ts'
import { type ArtifactStore, artifactStore } from '../../../src/artifacts/index.ts'
import { makeWorld, type World } from '../world.ts'

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

test('the owner downloads the file of a complete job, whole or in ranges [D9 D41]', async () => {
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
  const head = await ask(path, { as: 'owner', method: 'HEAD' })
  expect(head).toMatchObject({ status: 200, text: '', headers: { 'content-length': '8' } })
})

type Conditions = Record<string, string>

/** What each request for a file of eight bytes is answered with; one implementation serves every route. */
const NARROW: [string, Conditions, [status: number, text: string | null, contentRange?: string]][] = [
  ['an open range', { range: 'bytes=3-' }, [206, 'ges/>', 'bytes 3-7/8']],
  ['one byte', { range: 'bytes=0-0' }, [206, '<', 'bytes 0-0/8']],
  ['a range that ends behind the file', { range: 'bytes=6-99999999999999999999' }, [206, '/>', 'bytes 6-7/8']],
  ['a suffix', { range: 'bytes=-3' }, [206, 's/>', 'bytes 5-7/8']],
  ['a suffix longer than the file', { range: 'bytes=-500' }, [206, '<pages/>', 'bytes 0-7/8']],
  ['a unit in capitals', { range: 'BYTES=0-1' }, [206, '<p', 'bytes 0-1/8']],
  ['a start at the end', { range: 'bytes=8-' }, [416, null, 'bytes */8']],
  ['a start behind the end', { range: 'bytes=99999999999999999999-' }, [416, null, 'bytes */8']],
  ['a suffix of nothing', { range: 'bytes=-0' }, [416, null, 'bytes */8']],
  ['several ranges', { range: 'bytes=0-1,4-5' }, [200, '<pages/>']],
  ['a range that runs backwards', { range: 'bytes=5-2' }, [200, '<pages/>']],
  ['no range at all', { range: 'bytes=-' }, [200, '<pages/>']],
  ['another unit', { range: 'lines=0-1' }, [200, '<pages/>']],
  ['a part of this content', { range: 'bytes=3-', 'if-range': 'TAG' }, [206, 'ges/>', 'bytes 3-7/8']],
  ['a part of this content, by date', { range: 'bytes=3-', 'if-range': 'DATE' }, [206, 'ges/>', 'bytes 3-7/8']],
  ['a part of another content', { range: 'bytes=3-', 'if-range': '"other"' }, [200, '<pages/>']],
  ['a part of another content, by date', { range: 'bytes=3-', 'if-range': 'OLD' }, [200, '<pages/>']],
  ['a part by a weak tag', { range: 'bytes=3-', 'if-range': 'W/TAG' }, [200, '<pages/>']],
  ['bytes that another content had', { range: 'bytes=100-', 'if-range': '"other"' }, [200, '<pages/>']],
  ['what the client has', { 'if-none-match': 'TAG' }, [304, '']],
  ['what the client has, among others', { 'if-none-match': '"a", W/TAG' }, [304, '']],
  ['anything that the client has', { 'if-none-match': '*' }, [304, '']],
  ['a part of what the client has', { 'if-none-match': 'TAG', range: 'bytes=0-1' }, [304, '']],
  ['what the client has in another version', { 'if-none-match': '"other"' }, [200, '<pages/>']],
  ['what has not changed since', { 'if-modified-since': 'DATE' }, [304, '']],
  ['what has changed since', { 'if-modified-since': 'OLD' }, [200, '<pages/>']],
  ['a date that is none', { 'if-modified-since': 'yesterday' }, [200, '<pages/>']],
  ['a tag beside a date', { 'if-none-match': '"other"', 'if-modified-since': 'DATE' }, [200, '<pages/>']],
]

test('ranges, conditions and HEAD follow RFC 9110', async () => {
  const { ask, jobs } = await worldWithFiles()
  const path = `/api/jobs/${jobs.ann.complete}/download`
  const { etag = '', 'last-modified': date = '' } = (await ask(path, { as: 'owner' })).headers
  const old = new Date(Date.parse(date) - 1_000).toUTCString()
  const filled = (value: string) => value.replace('TAG', etag).replace('DATE', date).replace('OLD', old)
  for (const [name, conditions, [status, text, contentRange]] of NARROW) {
    const headers = Object.fromEntries(Object.entries(conditions).map(([key, value]) => [key, filled(value)]))
    const answer = await ask(path, { as: 'owner', headers })
    expect([answer.status, answer.headers['content-range']], name).toEqual([status, contentRange])
    if (text !== null) expect([answer.text, answer.headers.etag], name).toEqual([text, etag])
    else expect(answer.json.error.code, name).toBe('ARTIFACT_RANGE_INVALID')
    // Whatever part is asked for.
    const head = await ask(path, { as: 'owner', method: 'HEAD', headers })
    expect([head.status, head.text], name).toEqual([status === 304 ? 304 : 200, ''])
    if (status !== 304) expect(head.headers).toMatchObject({ 'content-length': '8', etag, 'accept-ranges': 'bytes' })
  }
})

test('an empty file is sent whole, and every range is refused', async () => {
  const { ask, jobs, artifacts } = await worldWithFiles()
  await artifacts.put(`results/${jobs.ann.complete}.xml`, '')
  const path = `/api/jobs/${jobs.ann.complete}/download`
  const asked = async (headers: Conditions) => {
    const { status, text, headers: had } = await ask(path, { as: 'owner', headers })
    return [status, status === 416 ? had['content-range'] : text]
  }
  expect(await asked({})).toEqual([200, ''])
  expect(await asked({ range: 'bytes=-5' })).toEqual([200, ''])
  expect(await asked({ range: 'bytes=0-' })).toEqual([416, 'bytes */0'])
})

test('a range request after the file was replaced gets the whole new file', async () => {
  const { ask, jobs, artifacts } = await worldWithFiles()
  const path = `/api/jobs/${jobs.ann.complete}/download`
  const first = await ask(path, { as: 'owner', headers: { range: 'bytes=0-3' } })
  await artifacts.put(`results/${jobs.ann.complete}.xml`, '<sheets/>')
  const headers = { range: 'bytes=4-', 'if-range': String(first.headers.etag) }
  const second = await ask(path, { as: 'owner', headers })
  expect([second.status, second.text]).toEqual([200, '<sheets/>'])
})

const CURL = spawnSync('curl', ['--version']).status === 0
// A machine without curl has the raw requests above.
test.runIf(CURL)('curl resumes a download that was cut off, and has nothing to do for one that is whole', async () => {
  const { jobs, artifacts, folder, server, tokens } = await worldWithFiles()
  const content = randomBytes(300_000)
  await artifacts.put(`results/${jobs.ann.complete}.xml`, content)
  const file = join(folder, 'fetched.xml')
  const resume = async () => {
    const address = `${server.url}/api/jobs/${jobs.ann.complete}/download`
    const asked = ['-sS', '-f', '-C', '-', '-H', `authorization: Bearer ${tokens.owner}`, '-o', file, address]
    await promisify(execFile)('curl', [...asked, '-w', '%{http_code}'])
  }
  for (const had of [0, 123_456, 299_999]) {
    writeFileSync(file, content.subarray(0, had))
    await resume()
    expect(content.equals(readFileSync(file)), `after ${had} bytes`).toBe(true)
  }
  // With all of it, curl is answered 416 and the length, which says that nothing is missing.
  await resume().catch((error) => expect(String(error.stderr)).toContain('416'))
  expect(content.equals(readFileSync(file))).toBe(true)
})

test('a damaged artifact is not sent as complete', async () => {
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

test('many downloads over one connection leak no listeners', async () => {
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

test("a download answers NOT_READY before completion and EXPIRED afterwards, and hides other owners' files [D9 D10 D41]", async () => {
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
