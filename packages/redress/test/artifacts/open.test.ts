import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { type ArtifactStoreOptions, artifactStore } from '../../src/artifacts/open.ts'
import { refused } from './bytes.ts'

const credentials = { accessKeyId: 'K', secretAccessKey: 'hush' }
const MODULE = join(import.meta.dirname, '../../src/artifacts/open.ts')

const wrong: [Partial<ArtifactStoreOptions> & { url: string }, string][] = [
  [{ url: '' }, 'must begin with file: or s3:'],
  [{ url: './data' }, 'must begin with file: or s3:'],
  [{ url: 'https://bucket' }, 'must begin with file: or s3:'],
  [{ url: 'file:' }, 'names no folder'],
  [{ url: 'file://host/share' }, 'needs the whole path'],
  [{ url: 's3:', credentials }, 'names no bucket'],
  [{ url: 's3:///prefix', credentials }, 'names no bucket'],
  [{ url: 's3://b', credentials }, 'names no bucket'],
  [{ url: 's3://bucket', credentials }, 'needs a region or an endpoint'],
  [{ url: 's3://bucket?region=a.b', credentials }, 'has an invalid region'],
  [
    { url: 's3://bucket?regoin=x', credentials },
    'has the parameter regoin; known are endpoint, region, forcePathStyle',
  ],
  [{ url: 's3://bucket?endpoint=ftp://x', credentials }, 'not a plain http or https URL'],
  [{ url: 's3://bucket?endpoint=minio:9000', credentials }, 'not a plain http or https URL'],
  [{ url: 's3://bucket?region=x&forcePathStyle=yes', credentials }, 'forcePathStyle other than true or false'],
  [{ url: 's3://K:hush@bucket?region=x', credentials }, 'must not hold credentials'],
  [{ url: 's3://bucket?region=x' }, 'needs credentials'],
  [{ url: 's3://bucket?region=x', credentials: { accessKeyId: 'K', secretAccessKey: '' } }, 'needs credentials'],
  [
    { url: 's3://bucket?region=x', credentials, s3: { partBytes: 1000 } },
    'partBytes must be a whole number from 5242880',
  ],
  [{ url: 's3://bucket?region=x', credentials, s3: { requestTimeoutMs: 0 } }, 'requestTimeoutMs must be'],
]
test.each(wrong)('%j is refused, and the message says why without giving secrets away', async (options, why) => {
  const error = await refused('OPTION_INVALID', artifactStore(options))
  expect(error.message).toContain(why)
  expect(error.message).not.toContain('hush')
})

test.each(['file:./data', undefined, {}])('%j has no `url`, and the error shows how to give one', async (options) => {
  const error = await refused('OPTION_INVALID', artifactStore(options as never))
  expect(error.message).toContain("is missing: call artifactStore({ url: 'file:./data/artifacts' })")
})

test.each(['.hidden', 'x y', 'a%2f..%2fb', 'a//b', '%', 'x'.repeat(301)])('%j is no prefix', async (prefix) => {
  const error = await refused('OPTION_INVALID', artifactStore({ url: `s3://bucket/${prefix}?region=x`, credentials }))
  expect(error.message).toMatch(/prefix|percent sign/)
})

test('a folder is named relative to where the program runs, or by its whole path', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'redress-open-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  await artifactStore({ url: `file://${folder}/one%20two` })
  await artifactStore({ url: `file:${folder}/three` })
  expect(existsSync(join(folder, 'one two'))).toBe(true)
  expect(existsSync(join(folder, 'three'))).toBe(true)
  const script = `const { artifactStore } = await import(${JSON.stringify(MODULE)}); await artifactStore({ url: 'file:./four' })`
  execFileSync(process.execPath, ['--input-type=module', '-e', script], { cwd: folder })
  expect(existsSync(join(folder, 'four'))).toBe(true)
})

test('a program that does not use S3 does not load its SDK', () => {
  const folder = mkdtempSync(join(tmpdir(), 'redress-open-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const script = `
    import { createRequire } from 'node:module'
    const loaded = () => Object.keys(createRequire(import.meta.url).cache).some((path) => path.includes('@aws-sdk'))
    const { artifactStore } = await import(${JSON.stringify(MODULE)})
    const store = await artifactStore({ url: 'file:.' })
    await store.put('k', 'x')
    console.log(loaded())
    await artifactStore({ url: 's3://bucket?region=x', credentials: { accessKeyId: 'a', secretAccessKey: 'b' } })
    console.log(loaded())`
  const said = execFileSync(process.execPath, ['--input-type=module', '-e', script], { cwd: folder, encoding: 'utf8' })
  expect(said).toBe('false\ntrue\n')
})
