import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'

/** A request as S3 understands it. Buckets are named in the path, as `forcePathStyle` does. */
export interface S3Request {
  operation: string
  method: string
  bucket: string
  key: string
  query: URLSearchParams
  headers: IncomingHttpHeaders
  partNumber: number | null
}

export function readRequest(request: IncomingMessage): S3Request {
  const { method = 'GET', headers } = request
  const url = new URL(request.url ?? '/', 'http://localhost')
  const [, bucket = '', ...rest] = url.pathname.split('/')
  const key = rest.map(decodeURIComponent).join('/')
  const query = url.searchParams
  const partNumber = query.has('partNumber') ? Number(query.get('partNumber')) : null
  return { operation: operationOf(method, key, query), method, bucket, key, query, headers, partNumber }
}

function operationOf(method: string, key: string, query: URLSearchParams): string {
  const kind = ['uploads', 'uploadId', 'list-type'].find((name) => query.has(name)) ?? 'plain'
  return OPERATIONS[`${method} ${key === '' ? 'bucket' : 'object'} ${kind}`] ?? 'Unknown'
}

const OPERATIONS: Record<string, string> = {
  'GET bucket list-type': 'ListObjectsV2',
  'GET bucket uploads': 'ListMultipartUploads',
  'HEAD bucket plain': 'HeadBucket',
  'PUT object plain': 'PutObject',
  'GET object plain': 'GetObject',
  'HEAD object plain': 'HeadObject',
  'DELETE object plain': 'DeleteObject',
  'POST object uploads': 'CreateMultipartUpload',
  'PUT object uploadId': 'UploadPart',
  'POST object uploadId': 'CompleteMultipartUpload',
  'DELETE object uploadId': 'AbortMultipartUpload',
  'GET object uploadId': 'ListParts',
}
