import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { crc32 } from 'node:zlib'
import { S3Error } from './answers.ts'
import { hmac, type SigningContext, sha256Hex } from './signature.ts'

/**
 * Takes the body of a request out of what was sent, in every form that clients use, and compares it with each checksum
 * and signature that came with it. A sum that this server cannot work out is refused, never taken on trust.
 */
export function decodePayload(request: IncomingMessage, sent: Buffer, signing: SigningContext): Buffer {
  const form = String(request.headers['x-amz-content-sha256'])
  const { data, trailers } = form.startsWith('STREAMING-') ? unchunk(form, sent, signing) : { data: sent, trailers: {} }
  if (/^[0-9a-f]{64}$/.test(form) && sha256Hex(sent) !== form) {
    throw new S3Error('XAmzContentSHA256Mismatch', 400, 'the body is not the one that was signed')
  }
  const length = request.headers['x-amz-decoded-content-length']
  if (length !== undefined && Number(length) !== data.byteLength) {
    throw new S3Error('IncompleteBody', 400, `${data.byteLength} bytes came, ${length} were announced`)
  }
  const announced = request.headers['x-amz-trailer']
  if (announced !== undefined && trailers[String(announced)] === undefined) {
    throw new S3Error('MalformedTrailerError', 400, `${announced} was announced and did not come`)
  }
  checkSums({ ...request.headers, ...trailers }, data)
  return data
}

const SUMS: Record<string, (data: Buffer) => Buffer> = {
  'x-amz-checksum-sha256': (data) => createHash('sha256').update(data).digest(),
  'x-amz-checksum-sha1': (data) => createHash('sha1').update(data).digest(),
  'content-md5': (data) => createHash('md5').update(data).digest(),
  'x-amz-checksum-crc32'(data) {
    const sum = Buffer.alloc(4)
    sum.writeUInt32BE(crc32(data))
    return sum
  },
}

function checkSums(headers: Record<string, unknown>, data: Buffer): void {
  for (const [name, value] of Object.entries(headers)) {
    if (!/^(content-md5|x-amz-checksum-(?!algorithm|mode|type))/.test(name)) continue
    const sum = SUMS[name]
    if (sum === undefined) throw new S3Error('NotImplemented', 501, `this server cannot check ${name}`)
    const given = Buffer.from(String(value), 'base64')
    const right = sum(data)
    if (given.byteLength !== right.byteLength || !timingSafeEqual(given, right)) {
      throw new S3Error('BadDigest', 400, `${name} is not that of the body`)
    }
  }
}

interface Unchunked {
  data: Buffer
  trailers: Record<string, string>
}

/** `aws-chunked`: each chunk with its length and perhaps a signature, an empty one, then the trailers. */
function unchunk(form: string, sent: Buffer, signing: SigningContext): Unchunked {
  const isSigned = form.startsWith('STREAMING-AWS4-HMAC-SHA256-PAYLOAD')
  const chunks: Buffer[] = []
  let signature = signing.signature
  let at = 0
  const line = () => {
    const end = sent.indexOf('\r\n', at)
    if (end < 0) throw new S3Error('IncompleteBody', 400, 'a chunk has no end')
    const text = sent.toString('latin1', at, end)
    at = end + 2
    return text
  }
  for (;;) {
    const [, length = '', given] = /^([0-9a-f]+)(?:;chunk-signature=([0-9a-f]{64}))?$/.exec(line()) ?? []
    if (length === '') throw new S3Error('InvalidRequest', 400, 'a chunk has no length')
    const chunk = sent.subarray(at, at + Number.parseInt(length, 16))
    if (isSigned) signature = checkChunk(signing, signature, chunk, given)
    if (chunk.byteLength === 0) break
    chunks.push(chunk)
    at += chunk.byteLength
    if (line() !== '') throw new S3Error('IncompleteBody', 400, 'a chunk is longer than it said')
  }
  const trailers: Record<string, string> = {}
  for (let text = line(); text !== ''; text = line()) {
    const [name = '', value = ''] = text.split(/:(.*)/)
    trailers[name.trim().toLowerCase()] = value.trim()
  }
  if (isSigned && form.endsWith('-TRAILER')) checkTrailers(signing, signature, trailers)
  return { data: Buffer.concat(chunks), trailers }
}

function checkChunk(signing: SigningContext, previous: string, chunk: Buffer, given: string | undefined): string {
  const { key, date, scope } = signing
  const toSign = ['AWS4-HMAC-SHA256-PAYLOAD', date, scope, previous, sha256Hex(''), sha256Hex(chunk)].join('\n')
  const right = hmac(key, toSign).toString('hex')
  if (right !== given) throw new S3Error('SignatureDoesNotMatch', 403, 'a chunk has the wrong signature')
  return right
}

function checkTrailers(signing: SigningContext, previous: string, trailers: Record<string, string>): void {
  const { key, date, scope } = signing
  const { 'x-amz-trailer-signature': given, ...signed } = trailers
  const text = Object.entries(signed)
    .map(([name, value]) => `${name}:${value}\n`)
    .join('')
  const right = hmac(key, ['AWS4-HMAC-SHA256-TRAILER', date, scope, previous, sha256Hex(text)].join('\n'))
  if (right.toString('hex') !== given)
    throw new S3Error('SignatureDoesNotMatch', 403, 'the trailers are signed wrongly')
}
