import { createRequire } from 'node:module'
import { Readable } from 'node:stream'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { S3Server } from '../../../../test/support/s3/server.ts'
import { hmac, sha256Hex, signingKey } from '../../../../test/support/s3/signature.ts'
import { sha256, someBytes } from './bytes.ts'

/** A server that believes everything proves nothing: this one is tried with the SDK itself and with forged requests. */
let server: S3Server
beforeEach(async () => {
  server = await S3Server.start()
})
afterEach(() => server.stop())

const sdk: typeof import('@aws-sdk/client-s3') = createRequire(import.meta.url)('@aws-sdk/client-s3')
const object = { Bucket: 'artifacts', Key: 'some/key (1)' }

function client(secretAccessKey = server.credentials.secretAccessKey) {
  const credentials = { ...server.credentials, secretAccessKey }
  return new sdk.S3Client({
    region: server.region,
    endpoint: server.url,
    forcePathStyle: true,
    credentials,
    maxAttempts: 1,
  })
}

describe('the SDK with its own defaults', () => {
  test('streams in chunks with a checksum behind the last one', async () => {
    const bytes = someBytes(300_000)
    const Body = Readable.from([bytes.subarray(0, 100_000), bytes.subarray(100_000)])
    await client().send(new sdk.PutObjectCommand({ ...object, Body, ContentLength: bytes.length }))
    const { headers } = server.requests[0] ?? {}
    expect(headers?.['x-amz-content-sha256']).toBe('STREAMING-UNSIGNED-PAYLOAD-TRAILER')
    expect(headers?.['x-amz-trailer']).toBe('x-amz-checksum-crc32')
    const answer = await client().send(new sdk.GetObjectCommand(object))
    expect(sha256((await answer.Body?.transformToByteArray()) ?? '')).toBe(sha256(bytes))
  })

  test('is refused with a wrong secret', async () => {
    const putting = client('wrong').send(new sdk.PutObjectCommand({ ...object, Body: 'x' }))
    await expect(putting).rejects.toMatchObject({ name: 'SignatureDoesNotMatch' })
    expect(server.bucket().objects.size).toBe(0)
  })

  test('is refused with a checksum of other bytes', async () => {
    const ChecksumSHA256 = Buffer.from(sha256('y'), 'hex').toString('base64')
    const putting = client().send(new sdk.PutObjectCommand({ ...object, Body: 'x', ChecksumSHA256 }))
    await expect(putting).rejects.toMatchObject({ name: 'BadDigest' })
  })

  test('may not complete an upload with small, missing or unordered parts', async () => {
    const s3 = client()
    const { UploadId } = await s3.send(new sdk.CreateMultipartUploadCommand(object))
    const parts = await Promise.all(
      [1, 2].map(async (PartNumber) => {
        const { ETag } = await s3.send(
          new sdk.UploadPartCommand({ ...object, UploadId, PartNumber, Body: `${PartNumber}` }),
        )
        return { PartNumber, ETag }
      }),
    )
    const complete = (Parts: typeof parts) =>
      s3.send(new sdk.CompleteMultipartUploadCommand({ ...object, UploadId, MultipartUpload: { Parts } }))
    await expect(complete(parts)).rejects.toMatchObject({ name: 'EntityTooSmall' })
    await expect(complete([...parts].reverse())).rejects.toMatchObject({ name: 'InvalidPartOrder' })
    await expect(complete([{ PartNumber: 3, ETag: '"x"' }])).rejects.toMatchObject({ name: 'InvalidPart' })
    const { Parts } = await s3.send(new sdk.ListPartsCommand({ ...object, UploadId }))
    expect(Parts?.map(({ PartNumber, Size }) => [PartNumber, Size])).toEqual([
      [1, 1],
      [2, 1],
    ])
    await complete(parts.slice(0, 1))
    await expect(complete(parts)).rejects.toMatchObject({ name: 'NoSuchUpload' })
  })
})

describe('signed by hand', () => {
  interface Signed {
    body?: string
    contentSha256?: string
    headers?: Record<string, string>
    /** Makes the body from the signature of the head, for chunks that continue it. */
    chunks?: (signature: string, sign: (...lines: string[]) => string) => string
  }

  async function send({ body = '', contentSha256 = sha256Hex(body), headers = {}, chunks }: Signed): Promise<string> {
    const date = new Date().toISOString().replace(/[-:]|\.\d+/g, '')
    const day = date.slice(0, 8)
    const host = new URL(server.url).host
    const all: Record<string, string> = { host, 'x-amz-content-sha256': contentSha256, 'x-amz-date': date, ...headers }
    const names = Object.keys(all).sort()
    const canonical = [
      'PUT',
      '/artifacts/k',
      '',
      ...names.map((name) => `${name}:${all[name]}`),
      '',
      names.join(';'),
      contentSha256,
    ].join('\n')
    const scope = `${day}/${server.region}/s3/aws4_request`
    const key = signingKey(server.credentials.secretAccessKey, day, server.region)
    const sign = (kind: string, ...lines: string[]) =>
      hmac(key, [kind, date, scope, ...lines].join('\n')).toString('hex')
    const signature = sign('AWS4-HMAC-SHA256', sha256Hex(canonical))
    const authorization =
      `AWS4-HMAC-SHA256 Credential=${server.credentials.accessKeyId}/${scope}, ` +
      `SignedHeaders=${names.join(';')}, Signature=${signature}`
    const response = await fetch(`${server.url}/artifacts/k`, {
      method: 'PUT',
      headers: { ...all, authorization },
      body: chunks?.(signature, sign as never) ?? body,
    })
    const [, code] = /<Code>(\w+)</.exec(await response.text()) ?? []
    return code ?? String(response.status)
  }

  const stored = () => server.bucket().objects.get('k')?.data.toString()
  const chunked = {
    contentSha256: 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD',
    headers: { 'x-amz-decoded-content-length': '9' },
  }

  /** Two chunks and the empty one, each signed on top of the one before. */
  function signedChunks(texts: string[]) {
    return (signature: string, sign: (...lines: string[]) => string) => {
      let previous = signature
      const lines = [...texts, ''].map((text) => {
        previous = sign('AWS4-HMAC-SHA256-PAYLOAD', previous, sha256Hex(''), sha256Hex(text))
        return `${text.length.toString(16)};chunk-signature=${previous}\r\n${text === '' ? '' : `${text}\r\n`}`
      })
      return `${lines.join('')}\r\n`
    }
  }

  test('a plain body', async () => {
    expect(await send({ body: 'plain' })).toBe('200')
    expect(stored()).toBe('plain')
  })

  test('another body than was signed', async () => {
    expect(await send({ body: 'plain', contentSha256: sha256Hex('other') })).toBe('XAmzContentSHA256Mismatch')
  })

  test('chunks, each with its signature', async () => {
    expect(await send({ ...chunked, chunks: signedChunks(['first', 'last']) })).toBe('200')
    expect(stored()).toBe('firstlast')
  })

  test('a chunk that was changed on the way, or left out', async () => {
    const right = signedChunks(['first', 'last'])
    const changed = (...given: Parameters<typeof right>) => right(...given).replace('last', 'lost')
    expect(await send({ ...chunked, chunks: changed })).toBe('SignatureDoesNotMatch')
    const short = (...given: Parameters<typeof right>) => right(...given).replace(/^5;.*\r\nfirst\r\n/, '')
    expect(await send({ ...chunked, chunks: short })).toBe('SignatureDoesNotMatch')
    expect(await send({ ...chunked, chunks: signedChunks(['first']) })).toBe('IncompleteBody')
    expect(stored()).toBeUndefined()
  })

  test('an unsigned request', async () => {
    const response = await fetch(`${server.url}/artifacts/k`)
    expect(response.status).toBe(403)
    expect(await response.text()).toContain('<Code>AccessDenied</Code>')
  })

  test('a request of another time', async () => {
    expect(await send({ headers: { 'x-amz-date': '20200101T000000Z' } })).toBe('RequestTimeTooSkewed')
  })
})
