import { createHash } from 'node:crypto'
import { type Answer, element, S3Error, xmlAnswer } from './answers.ts'
import type { S3Request } from './request.ts'
import type { Upload } from './uploads.ts'

export interface StoredObject {
  data: Buffer
  etag: string
  /** Base64; of an object in parts the sum of the parts' sums, with their number. */
  sha256: string | null
  contentType: string
  contentEncoding: string | null
  metadata: Record<string, string>
  modified: Date
}

export class Bucket {
  readonly objects = new Map<string, StoredObject>()
  readonly uploads = new Map<string, Upload>()
}

export const hash = (name: string, data: Uint8Array) => createHash(name).update(data)
export const quotedMd5 = (data: Uint8Array) => `"${hash('md5', data).digest('hex')}"`
export const sha256 = (data: Uint8Array) => hash('sha256', data).digest('base64')

export type Operation = (bucket: Bucket, request: S3Request, body: Buffer) => Answer

export const OBJECT_OPERATIONS: Record<string, Operation> = {
  HeadBucket: () => ({ status: 200 }),

  PutObject(bucket, { key, headers }, data) {
    if (headers['x-amz-copy-source'] !== undefined)
      throw new S3Error('NotImplemented', 501, 'this server copies nothing')
    checkConditions(bucket.objects.get(key), headers)
    const sum = headers['x-amz-checksum-sha256'] === undefined ? null : sha256(data)
    const object = { data, etag: quotedMd5(data), sha256: sum, ...describedBy(headers), modified: new Date() }
    bucket.objects.set(key, object)
    return { status: 200, headers: { etag: object.etag } }
  },

  GetObject(bucket, { key, headers }) {
    const object = objectAt(bucket, key)
    checkConditions(object, headers)
    const range = rangeOf(headers.range, object.data.byteLength)
    const answer = headersOf(object, headers)
    if (range === null) return { status: 200, headers: answer, body: object.data }
    const { start, end } = range
    answer['content-range'] = `bytes ${start}-${end}/${object.data.byteLength}`
    return { status: 206, headers: answer, body: object.data.subarray(start, end + 1) }
  },

  HeadObject(bucket, { key, headers }) {
    const object = objectAt(bucket, key)
    checkConditions(object, headers)
    return { status: 200, headers: { ...headersOf(object, headers), 'content-length': String(object.data.byteLength) } }
  },

  DeleteObject(bucket, { key, headers }) {
    if (headers['if-match'] !== undefined) checkConditions(objectAt(bucket, key), headers)
    bucket.objects.delete(key)
    return { status: 204 }
  },

  ListObjectsV2(bucket, { query }) {
    const prefix = query.get('prefix') ?? ''
    const after = query.get('continuation-token') ?? query.get('start-after') ?? ''
    const limit = Math.min(Number(query.get('max-keys') ?? 1000), 1000)
    const keys = inOrder(bucket.objects.keys()).filter((key) => key.startsWith(prefix) && isAfter(key, after))
    const page = keys.slice(0, limit)
    const isTruncated = keys.length > limit
    const contents = page.map((key) => {
      const { data, etag, modified } = objectAt(bucket, key)
      const fields = [element('Key', key), element('Size', data.byteLength), element('ETag', etag)]
      return `<Contents>${fields.join('')}${element('LastModified', modified.toISOString())}</Contents>`
    })
    const token = isTruncated ? element('NextContinuationToken', page.at(-1) ?? '') : ''
    return xmlAnswer(
      `<ListBucketResult>${element('Prefix', prefix)}${element('KeyCount', page.length)}` +
        `${element('IsTruncated', isTruncated)}${token}${contents.join('')}</ListBucketResult>`,
    )
  },
}

// ---------------------------------------------------------------------------------------------------------- helpers

function objectAt(bucket: Bucket, key: string): StoredObject {
  const object = bucket.objects.get(key)
  if (object === undefined) throw new S3Error('NoSuchKey', 404, 'the specified key does not exist')
  return object
}

export function checkConditions(object: StoredObject | undefined, headers: S3Request['headers']): void {
  const isRefused =
    (headers['if-none-match'] === '*' && object !== undefined) ||
    (headers['if-match'] !== undefined && headers['if-match'] !== object?.etag)
  if (isRefused) throw new S3Error('PreconditionFailed', 412, 'a condition you set does not hold')
}

export function describedBy(
  headers: S3Request['headers'],
): Pick<StoredObject, 'contentType' | 'contentEncoding' | 'metadata'> {
  const metadata = Object.entries(headers).flatMap(([name, value]) =>
    name.startsWith('x-amz-meta-') ? [[name.slice('x-amz-meta-'.length), String(value)] as const] : [],
  )
  return {
    contentType: headers['content-type'] ?? 'binary/octet-stream',
    contentEncoding: headers['content-encoding'] ?? null,
    metadata: Object.fromEntries(metadata),
  }
}

function headersOf(object: StoredObject, asked: S3Request['headers']): Record<string, string> {
  const wantsSum = asked['x-amz-checksum-mode'] === 'ENABLED' && asked.range === undefined
  return {
    etag: object.etag,
    'content-type': object.contentType,
    ...(object.contentEncoding !== null && { 'content-encoding': object.contentEncoding }),
    'last-modified': object.modified.toUTCString(),
    'accept-ranges': 'bytes',
    ...Object.fromEntries(Object.entries(object.metadata).map(([name, value]) => [`x-amz-meta-${name}`, value])),
    ...(wantsSum && object.sha256 !== null ? { 'x-amz-checksum-sha256': object.sha256 } : {}),
  }
}

function rangeOf(header: string | undefined, bytes: number): { start: number; end: number } | null {
  if (header === undefined) return null
  const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(header) ?? []
  if (first === '' && last === '') return null
  const start = first === '' ? Math.max(0, bytes - Number(last)) : Number(first)
  const end = first === '' || last === '' ? bytes - 1 : Math.min(Number(last), bytes - 1)
  if (start > end) throw new S3Error('InvalidRange', 416, 'the requested range is not satisfiable')
  return { start, end }
}

/** S3 orders keys by their bytes in UTF-8. */
function inOrder(keys: Iterable<string>): string[] {
  return [...keys].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
}

const isAfter = (key: string, after: string) => Buffer.compare(Buffer.from(key), Buffer.from(after)) > 0
