import { randomUUID } from 'node:crypto'
import { element, S3Error, textsOf, xmlAnswer } from './answers.ts'
import { type Bucket, checkConditions, describedBy, hash, type Operation, quotedMd5, sha256 } from './objects.ts'

interface Part {
  data: Buffer
  etag: string
  sha256: string
}

export interface Upload {
  key: string
  contentType: string
  contentEncoding: string | null
  metadata: Record<string, string>
  algorithm: string | null
  initiated: Date
  parts: Map<number, Part>
}

const PART_BYTES_MIN = 5 * 2 ** 20
const PARTS_MAX = 10_000

/** Uploads in parts, which are seen by nobody until they are completed. */
export const UPLOAD_OPERATIONS: Record<string, Operation> = {
  CreateMultipartUpload(bucket, { key, headers }) {
    const id = randomUUID()
    const algorithm = headers['x-amz-checksum-algorithm']
    bucket.uploads.set(id, {
      key,
      ...describedBy(headers),
      algorithm: algorithm === undefined ? null : String(algorithm),
      initiated: new Date(),
      parts: new Map(),
    })
    const fields = element('Key', key) + element('UploadId', id)
    return xmlAnswer(`<InitiateMultipartUploadResult>${fields}</InitiateMultipartUploadResult>`)
  },

  UploadPart(bucket, { query, partNumber, key }, data) {
    const upload = uploadOf(bucket, query, key)
    const number = partNumber ?? 0
    if (!Number.isInteger(number) || number < 1 || number > PARTS_MAX) {
      throw new S3Error('InvalidArgument', 400, 'part numbers go from 1 to 10000')
    }
    const part = { data, etag: quotedMd5(data), sha256: sha256(data) }
    upload.parts.set(number, part)
    return { status: 200, headers: { etag: part.etag, 'x-amz-checksum-sha256': part.sha256 } }
  },

  CompleteMultipartUpload(bucket, { query, key, headers }, body) {
    const upload = uploadOf(bucket, query, key)
    const parts = listedParts(upload, body.toString())
    checkConditions(bucket.objects.get(key), headers)
    const data = Buffer.concat(parts.map((part) => part.data))
    const etags = Buffer.concat(parts.map((part) => Buffer.from(part.etag.slice(1, -1), 'hex')))
    const sums = Buffer.concat(parts.map((part) => Buffer.from(part.sha256, 'base64')))
    const etag = `"${hash('md5', etags).digest('hex')}-${parts.length}"`
    bucket.objects.set(key, {
      data,
      etag,
      sha256: upload.algorithm === 'SHA256' ? `${sha256(sums)}-${parts.length}` : null,
      contentType: upload.contentType,
      contentEncoding: upload.contentEncoding,
      metadata: upload.metadata,
      modified: new Date(),
    })
    bucket.uploads.delete(String(query.get('uploadId')))
    const fields = element('Key', key) + element('ETag', etag)
    return xmlAnswer(`<CompleteMultipartUploadResult>${fields}</CompleteMultipartUploadResult>`)
  },

  AbortMultipartUpload(bucket, { query, key }) {
    uploadOf(bucket, query, key)
    bucket.uploads.delete(String(query.get('uploadId')))
    return { status: 204 }
  },

  ListParts(bucket, { query, key }) {
    const parts = [...uploadOf(bucket, query, key).parts].map(([number, { data, etag }]) => {
      const fields = [element('PartNumber', number), element('ETag', etag), element('Size', data.byteLength)]
      return `<Part>${fields.join('')}</Part>`
    })
    return xmlAnswer(`<ListPartsResult>${element('IsTruncated', false)}${parts.join('')}</ListPartsResult>`)
  },

  ListMultipartUploads(bucket, { query }) {
    const prefix = query.get('prefix') ?? ''
    const uploads = [...bucket.uploads].filter(([, { key }]) => key.startsWith(prefix))
    const listed = uploads.map(([id, { key, initiated }]) => {
      const fields = [element('Key', key), element('UploadId', id), element('Initiated', initiated.toISOString())]
      return `<Upload>${fields.join('')}</Upload>`
    })
    const fields = element('IsTruncated', false) + listed.join('')
    return xmlAnswer(`<ListMultipartUploadsResult>${fields}</ListMultipartUploadsResult>`)
  },
}

function uploadOf(bucket: Bucket, query: URLSearchParams, key: string): Upload {
  const upload = bucket.uploads.get(String(query.get('uploadId')))
  if (upload?.key !== key) throw new S3Error('NoSuchUpload', 404, 'the specified upload does not exist')
  return upload
}

function listedParts(upload: Upload, xml: string): Part[] {
  const numbers = textsOf(xml, 'PartNumber').map(Number)
  const etags = textsOf(xml, 'ETag')
  const sums = textsOf(xml, 'ChecksumSHA256')
  if (numbers.length === 0) throw new S3Error('MalformedXML', 400, 'an upload needs a part')
  if (numbers.some((number, i) => i > 0 && number <= (numbers[i - 1] ?? 0))) {
    throw new S3Error('InvalidPartOrder', 400, 'parts must be in order')
  }
  return numbers.map((number, i) => {
    const part = upload.parts.get(number)
    if (part === undefined || part.etag !== etags[i]) throw new S3Error('InvalidPart', 400, `part ${number} is missing`)
    if (upload.algorithm === 'SHA256' && part.sha256 !== sums[i])
      throw new S3Error('InvalidPart', 400, 'wrong checksum')
    if (i < numbers.length - 1 && part.data.byteLength < PART_BYTES_MIN) {
      throw new S3Error('EntityTooSmall', 400, `part ${number} is smaller than 5 MiB`)
    }
    return part
  })
}
