import { createGunzip } from 'node:zlib'
import type { FastifyRequest } from 'fastify'
import { refusal } from '../failures/refusals.ts'

/** 5 MB (5 times 1,048,576 bytes), for the compressed and for the decompressed body: a small file may be a zip bomb. */
const BODY_BYTES_MAX = 5 * 2 ** 20

/** The maximum nesting depth. Parsers, printers and stores have their own limits, which are higher. */
const LEVELS_MAX = 64

/** Reads the body of a request as JSON. Whatever is wrong with it as such is refused here. */
export async function readBody(request: FastifyRequest): Promise<unknown> {
  if (!/^application\/(?:[\w.-]+\+)?json\b/i.test(request.headers['content-type'] ?? '')) {
    throw refusal('VALIDATION_UNSUPPORTED_TYPE')
  }
  const text = textOf(await unpacked(request))
  if (isDeep(text))
    throw refusal('VALIDATION_INVALID_JSON', { said: `It is nested more than ${LEVELS_MAX} levels deep.` })
  try {
    return JSON.parse(text)
  } catch {
    throw refusal('VALIDATION_INVALID_JSON')
  }
}

async function unpacked({ raw, headers }: FastifyRequest): Promise<Buffer> {
  const encoding = headers['content-encoding']?.trim().toLowerCase() ?? 'identity'
  if (encoding === 'identity' || encoding === '') return readAll(raw)
  if (encoding !== 'gzip' && encoding !== 'x-gzip') throw refusal('VALIDATION_UNSUPPORTED_ENCODING')
  const gunzip = createGunzip()
  // An error of the request must not leave the reader of the other end waiting.
  raw.once('error', (error) => gunzip.destroy(error))
  raw.once('aborted', () => gunzip.destroy(new Error('the client went away')))
  try {
    return await readAll(raw.pipe(gunzip))
  } catch (error) {
    if (!isZlibError(error)) throw error
    throw refusal('VALIDATION_INVALID_JSON', { said: 'It is not gzip, although Content-Encoding says so.' })
  }
}

const isZlibError = (error: unknown): boolean => String((error as { code?: unknown }).code ?? '').startsWith('Z_')

async function readAll(stream: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of stream) {
    bytes += chunk.byteLength
    if (bytes > BODY_BYTES_MAX) throw refusal('VALIDATION_TOO_LARGE')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function textOf(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw refusal('VALIDATION_INVALID_JSON', { said: 'It is not UTF-8.' })
  }
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const OPENING = new Set([0x5b, 0x7b])
const CLOSING = new Set([0x5d, 0x7d])

/** Checked before parsing: five million brackets would cost far more than their bytes. */
function isDeep(text: string): boolean {
  let depth = 0
  let isInText = false
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (isInText) {
      if (code === BACKSLASH) i++
      else if (code === QUOTE) isInText = false
    } else if (code === QUOTE) isInText = true
    else if (OPENING.has(code)) {
      if (++depth > LEVELS_MAX) return true
    } else if (CLOSING.has(code)) depth--
  }
  return false
}
