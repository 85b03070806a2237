import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { type ArtifactStore, artifactStore } from 'redress/artifacts'
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { S3Server } from '../../../../test/support/s3/server.ts'
import { deadPort } from '../../../../test/support/servers/origin-server.ts'
import { smallDisk } from '../../../../test/support/stores/small-disk.ts'
import { until } from '../../../../test/support/until.ts'
import { FetchFailure, isRetryable } from '../../src/failures/failure.ts'
import { type Uploadable, type UploadOptions, upload } from '../../src/transfer/upload.ts'

const KEY = 'resources/sample/job/one'
const PART_BYTES = 5 * 2 ** 20
const NOW_MS = Date.UTC(2026, 0, 1)

let server: S3Server
let store: ArtifactStore
beforeAll(async () => {
  server = await S3Server.start()
  store = await openS3()
})
afterEach(() => {
  server.release()
  server.bucket().objects.clear()
})
afterAll(async () => {
  await store.close()
  await server.stop()
})

function openS3(url = server.storeUrl(), credentials = server.credentials): Promise<ArtifactStore> {
  return artifactStore({ url, credentials, s3: { partBytes: PART_BYTES } })
}

function spooled(data: Buffer, contentType: string | null = 'text/plain'): Uploadable & { opened: number } {
  const given = {
    sha256: createHash('sha256').update(data).digest('hex'),
    bytes: data.byteLength,
    contentType,
    contentEncoding: null,
    opened: 0,
    open: () => {
      given.opened++
      return Readable.from([data], { objectMode: false })
    },
  }
  return given
}

const small = () => spooled(Buffer.from('a small one'))
const large = () => spooled(Buffer.alloc(2 * PART_BYTES + 1, 'large'))
const options = (more: Partial<UploadOptions> = {}): UploadOptions => ({
  store,
  key: KEY,
  nowMs: () => NOW_MS,
  ...more,
})

async function failure(what: Uploadable, more?: Partial<UploadOptions>): Promise<FetchFailure> {
  const error = await upload(what, options(more)).then(
    () => new Error('it was stored'),
    (thrown: unknown) => thrown,
  )
  if (error instanceof FetchFailure) return error
  throw error
}

const stored = () => server.bucket().objects.get(KEY)

describe('in an object store', () => {
  test.each([
    ['one part', small],
    ['several parts', large],
  ])('a resource of %s is stored with its checksum and looked at again', async (_, make) => {
    const what = make()
    const before = server.requests.length
    expect(await upload(what, options())).toEqual({ key: KEY, bytes: what.bytes, sha256: what.sha256 })
    expect(
      createHash('sha256')
        .update(stored()?.data ?? '')
        .digest('hex'),
    ).toBe(what.sha256)
    expect(stored()?.contentType).toBe('text/plain')
    expect(stored()?.metadata).toMatchObject({ 'redress-sha256': what.sha256 })
    expect(server.requests.slice(before).at(-1)?.operation).toBe('HeadObject')
  })

  test.each([
    ['AccessDenied', 403, 'UPLOAD_ACCESS_DENIED', false],
    ['InvalidAccessKeyId', 403, 'UPLOAD_ACCESS_DENIED', false],
    ['SignatureDoesNotMatch', 403, 'UPLOAD_ACCESS_DENIED', false],
    ['NoSuchBucket', 404, 'UPLOAD_NO_BUCKET', false],
    ['InvalidBucketName', 400, 'UPLOAD_NO_BUCKET', false],
    ['EntityTooLarge', 400, 'UPLOAD_REFUSED', false],
    ['SlowDown', 503, 'UPLOAD_THROTTLED', true],
    ['TooManyRequests', 429, 'UPLOAD_THROTTLED', true],
    ['ServiceUnavailable', 503, 'UPLOAD_S3_ERROR', true],
    ['InternalError', 500, 'UPLOAD_S3_ERROR', true],
    ['BadGateway', 502, 'UPLOAD_S3_ERROR', true],
    ['AnotherTimeout', 408, 'UPLOAD_S3_ERROR', true],
    ['ConditionalRequestConflict', 409, 'UPLOAD_S3_ERROR', true],
    ['RequestTimeout', 400, 'UPLOAD_NETWORK', true],
    ['BadDigest', 400, 'UPLOAD_CHECKSUM', true],
    ['XMinioStorageFull', 507, 'UPLOAD_DISK_FULL', true],
  ])('the S3 error %s (%i) is %s, retried: %s [F10]', async (s3Code, status, code, again) => {
    server.plan({ kind: 'answer', code: s3Code, status }, { operation: 'PutObject' })
    const found = await failure(small())
    expect(found).toMatchObject({ code, context: { proxy: null, status, s3Code } })
    expect(isRetryable(found.code)).toBe(again)
    expect(stored()).toBeUndefined()
  })

  test('an upload that is throttled twice is repeated from the same spool after the requested wait [F10 F11]', async () => {
    const what = small()
    const slow = { kind: 'answer', code: 'SlowDown', status: 503, headers: { 'retry-after': '3' } } as const
    server.plan(slow, { operation: 'PutObject', times: 2 })
    for (let i = 0; i < 2; i++) {
      expect(await failure(what)).toMatchObject({ code: 'UPLOAD_THROTTLED', retryAfterMs: 3000 })
    }
    expect(await upload(what, options())).toMatchObject({ bytes: what.bytes })
    expect(what.opened).toBe(3)
  })

  test.each([
    ['CreateMultipartUpload', { kind: 'answer', code: 'AccessDenied', status: 403 }, 'UPLOAD_ACCESS_DENIED'],
    ['UploadPart', { kind: 'answer', code: 'SlowDown', status: 503 }, 'UPLOAD_THROTTLED'],
    ['UploadPart', { kind: 'cut-request', afterBytes: 1000 }, 'UPLOAD_NETWORK'],
    ['CompleteMultipartUpload', { kind: 'answer', code: 'InternalError', status: 500 }, 'UPLOAD_S3_ERROR'],
  ] as const)(
    'a multipart upload that breaks at %s by %j leaves nothing and succeeds on retry [F10]',
    async (operation, fault, code) => {
      const what = large()
      server.plan(fault, { operation })
      expect((await failure(what)).code).toBe(code)
      expect(stored()).toBeUndefined()
      expect(server.bucket().uploads.size).toBe(0)
      await upload(what, options())
      expect(stored()?.data.byteLength).toBe(what.bytes)
    },
  )

  test('a broken or refused connection to the storage is UPLOAD_NETWORK [F10]', async () => {
    server.plan({ kind: 'cut-request', afterBytes: 1 }, { operation: 'PutObject' })
    expect(await failure(small())).toMatchObject({ code: 'UPLOAD_NETWORK', context: { status: null } })
    const nobody = encodeURIComponent(`http://127.0.0.1:${await deadPort()}`)
    const away = await openS3(`s3://artifacts?region=test-1&endpoint=${nobody}`)
    onTestFinished(() => away.close())
    expect(await failure(small(), { store: away })).toMatchObject({
      code: 'UPLOAD_NETWORK',
      context: { status: null, errno: 'ECONNREFUSED' },
    })
  })

  test('wrong credentials and a missing bucket are final [F10]', async () => {
    const secretAccessKey = 'hunter2-of-forty-characters'
    const stranger = await openS3(server.storeUrl(), { ...server.credentials, secretAccessKey })
    const homeless = await openS3(server.storeUrl('no-such-bucket'))
    onTestFinished(async () => {
      await stranger.close()
      await homeless.close()
    })
    const denied = await failure(small(), { store: stranger })
    expect(denied.code).toBe('UPLOAD_ACCESS_DENIED')
    expect(JSON.stringify([denied.message, denied.context])).not.toContain('hunter2')
    expect((await failure(small(), { store: homeless })).code).toBe('UPLOAD_NO_BUCKET')
  })

  test('an answer that was lost after the write does not fail the upload: it is found to be there', async () => {
    server.plan({ kind: 'lose-answer' }, { operation: 'PutObject' })
    const what = small()
    expect(await upload(what, options())).toMatchObject({ sha256: what.sha256 })
  })

  test('a missing or incomplete object after the upload is UPLOAD_CHECKSUM', async () => {
    // Somebody takes it away, or cuts it short, between the write and the look.
    const meddle = async (with_: () => void): Promise<FetchFailure> => {
      server.plan({ kind: 'hold' }, { operation: 'PutObject' })
      const ended = failure(small())
      await until('it is stored', () => server.heldCount === 1)
      with_()
      server.release()
      return ended
    }
    expect((await meddle(() => server.bucket().objects.clear())).code).toBe('UPLOAD_CHECKSUM')
    const cut = await meddle(() => {
      const object = stored()
      if (object !== undefined) object.data = object.data.subarray(0, 3)
    })
    expect(cut).toMatchObject({ code: 'UPLOAD_CHECKSUM', context: { bytes: 11, bytesStored: 3 } })
  })

  test('a byte that changed is found when every byte is read again, and by its length alone it is not', async () => {
    for (const verification of ['head', 'read'] as const) {
      server.plan({ kind: 'hold' }, { operation: 'PutObject' })
      const what = small()
      const ended = upload(what, options({ verification })).catch((error: unknown) => error)
      await until('it is stored', () => server.heldCount === 1)
      const object = stored()
      if (object !== undefined) object.data = Buffer.from('a smaLl one')
      server.release()
      expect(await ended).toMatchObject(verification === 'read' ? { code: 'UPLOAD_CHECKSUM' } : { bytes: what.bytes })
    }
  })

  test('an upload that is called off ends with the caller’s own reason and leaves nothing', async () => {
    const stop = new AbortController()
    const reason = new Error('called off')
    server.plan({ kind: 'hold' }, { operation: 'UploadPart' })
    const ended = upload(large(), options({ signal: stop.signal })).catch((error: unknown) => error)
    await until('a part is under way', () => server.heldCount === 1)
    stop.abort(reason)
    server.release()
    expect(await ended).toBe(reason)
    expect(stored()).toBeUndefined()
    expect(server.bucket().uploads.size).toBe(0)
  })

  test('an invalid content type of an origin is dropped, and the resource is stored', async () => {
    for (const type of ['bad\u0000type', 'ü', '', 'x'.repeat(300)]) {
      await upload(spooled(Buffer.from('x'), type), options())
      expect(stored()?.contentType).not.toBe(type)
    }
  })
})

describe('in a folder', () => {
  async function folderStore(folder: string): Promise<ArtifactStore> {
    const opened = await artifactStore({ url: `file:${folder}`, limits: {} })
    onTestFinished(() => opened.close())
    return opened
  }

  test('a resource is stored whole and looked at again, either way', async () => {
    const root = mkdtempSync(join(tmpdir(), 'redress-upload-'))
    onTestFinished(() => rmSync(root, { recursive: true }))
    const place = await folderStore(root)
    const what = large()
    for (const verification of ['head', 'read'] as const) {
      expect(await upload(what, options({ store: place, verification }))).toMatchObject({ sha256: what.sha256 })
    }
    const { body } = await place.get(KEY)
    expect((await buffer(body)).byteLength).toBe(what.bytes)
  })

  test('a full disk is UPLOAD_DISK_FULL, tried again, and succeeds when there is room', async (context) => {
    const disk = smallDisk(context)
    const place = await folderStore(join(disk.folder, 'storage'))
    disk.fill()
    const what = spooled(Buffer.alloc(2 ** 20, 'x'))
    const full = await failure(what, { store: place })
    expect(full.code).toBe('UPLOAD_DISK_FULL')
    expect(isRetryable(full.code)).toBe(true)
    expect(full.message).not.toContain(disk.folder)
    disk.empty()
    expect(await upload(what, options({ store: place }))).toMatchObject({ bytes: what.bytes })
  })

  test('a file where a folder must be is UPLOAD_REFUSED, never tried again, and stored when it is out of the way', async () => {
    const root = mkdtempSync(join(tmpdir(), 'redress-upload-'))
    onTestFinished(() => rmSync(root, { recursive: true }))
    const place = await folderStore(root)
    const inTheWay = join(root, KEY.split('/')[0] ?? '')
    writeFileSync(inTheWay, 'x')
    const found = await failure(small(), { store: place })
    expect(found.code).toBe('UPLOAD_REFUSED')
    expect(isRetryable(found.code)).toBe(false)
    expect(found.message).not.toContain(root)
    rmSync(inTheWay)
    expect(await upload(small(), options({ store: place }))).toMatchObject({ key: KEY })
  })

  test('a removed folder is UPLOAD_IO_ERROR, and its path is not shown', async () => {
    const root = mkdtempSync(join(tmpdir(), 'redress-upload-'))
    const place = await folderStore(root)
    rmSync(root, { recursive: true })
    const found = await failure(small(), { store: place })
    expect(found).toMatchObject({ code: 'UPLOAD_IO_ERROR', context: { status: null } })
    expect(found.message).not.toContain(root)
  })

  test('a spool that changed since the download is not stored', async () => {
    const root = mkdtempSync(join(tmpdir(), 'redress-upload-'))
    onTestFinished(() => rmSync(root, { recursive: true }))
    const place = await folderStore(root)
    const found = await failure(
      { ...small(), open: () => Readable.from([Buffer.from('another one')]) },
      { store: place },
    )
    expect(found.code).toBe('SYSTEM_SPOOL_FAILED')
    await expect(place.head(KEY)).rejects.toMatchObject({ code: 'ARTIFACT_NOT_FOUND' })
  })
})
