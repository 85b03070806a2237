import { createHash, createHmac } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { S3Error } from './answers.ts'

/** AWS Signature Version 4, from its specification: https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-authenticating-requests.html */

export interface Credentials {
  accessKeyId: string
  secretAccessKey: string
}

/** What the signatures of the chunks of a body continue from. */
export interface SigningContext {
  key: Buffer
  date: string
  scope: string
  signature: string
}

const SKEW_MS_MAX = 15 * 60_000
const AUTHORIZATION =
  /^AWS4-HMAC-SHA256 Credential=([^/,]+)\/(\d{8})\/([^/,]+)\/s3\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/

export const sha256Hex = (data: string | Uint8Array): string => createHash('sha256').update(data).digest('hex')
export const hmac = (key: string | Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest()

/** Throws what S3 would answer, unless the request was signed with these credentials as it arrived. */
export function checkSignature(request: IncomingMessage, credentials: Credentials, region: string): SigningContext {
  const [, accessKeyId, day = '', signedFor, headerList = '', signature = ''] =
    AUTHORIZATION.exec(request.headers.authorization ?? '') ?? []
  if (accessKeyId === undefined) throw new S3Error('AccessDenied', 403, 'the request is not signed')
  if (accessKeyId !== credentials.accessKeyId) throw new S3Error('InvalidAccessKeyId', 403, 'no such key')
  if (signedFor !== region) throw new S3Error('AuthorizationHeaderMalformed', 400, `expecting '${region}'`)
  const date = String(request.headers['x-amz-date'])
  if (!date.startsWith(day) || Math.abs(millisecondsOf(date) - Date.now()) > SKEW_MS_MAX) {
    throw new S3Error('RequestTimeTooSkewed', 403, 'the clocks differ by more than 15 minutes')
  }
  const signedHeaders = headerList.split(';')
  for (const needed of ['host', 'x-amz-content-sha256', 'x-amz-date']) {
    if (!signedHeaders.includes(needed)) throw new S3Error('AccessDenied', 403, `${needed} is not signed`)
  }
  const scope = `${day}/${region}/s3/aws4_request`
  const key = signingKey(credentials.secretAccessKey, day, region)
  const toSign = ['AWS4-HMAC-SHA256', date, scope, sha256Hex(canonicalRequest(request, signedHeaders))].join('\n')
  if (hmac(key, toSign).toString('hex') !== signature) {
    throw new S3Error('SignatureDoesNotMatch', 403, 'the signature we calculated does not match')
  }
  return { key, date, scope, signature }
}

export function signingKey(secret: string, day: string, region: string): Buffer {
  return hmac(hmac(hmac(hmac(`AWS4${secret}`, day), region), 's3'), 'aws4_request')
}

function canonicalRequest(request: IncomingMessage, signedHeaders: string[]): string {
  const [path = '', query = ''] = (request.url ?? '').split('?')
  const headers = signedHeaders.map((name) => `${name}:${String(request.headers[name]).trim().replace(/ +/g, ' ')}\n`)
  return [
    request.method,
    path.split('/').map(reencode).join('/'),
    canonicalQuery(query),
    headers.join(''),
    signedHeaders.join(';'),
    request.headers['x-amz-content-sha256'],
  ].join('\n')
}

function canonicalQuery(query: string): string {
  const pairs = query === '' ? [] : query.split('&').map((pair) => pair.split('='))
  return pairs
    .map(([name = '', value = '']) => `${reencode(name)}=${reencode(value)}`)
    .sort()
    .join('&')
}

function reencode(text: string): string {
  const encoded = encodeURIComponent(decodeURIComponent(text))
  return encoded.replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)
}

function millisecondsOf(date: string): number {
  return Date.parse(date.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'))
}
