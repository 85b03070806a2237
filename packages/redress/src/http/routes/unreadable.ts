import type { Socket } from 'node:net'
import { ERRORS, type ErrorCode } from '../../core/errors.ts'
import { SAFE_HEADERS } from '../callers/safe-headers.ts'

const SAID: Readonly<Record<string, [code: ErrorCode, reason: string, message: string]>> = {
  ERR_HTTP_REQUEST_TIMEOUT: ['REQUEST_TOO_SLOW', 'Request Timeout', 'This request took too long to arrive.'],
  HPE_HEADER_OVERFLOW: ['HEADERS_TOO_LARGE', 'Request Header Fields Too Large', 'The headers are too large.'],
}
const NOT_HTTP = ['REQUEST_INVALID', 'Bad Request', 'This is not a request of HTTP.'] as const

/**
 * What did not become a request at all: it came too slowly, or is not HTTP. There is no answer yet that could be filled
 * in, so one is written as it stands, and the connection is over: nobody knows where the next request would begin.
 */
export function answerUnreadable(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || socket.destroyed || !socket.writable) {
    socket.destroy()
    return
  }
  const known = Object.hasOwn(SAID, error.code ?? '') ? SAID[error.code as string] : undefined
  const [code, reason, message] = known ?? NOT_HTTP
  const { http, action } = ERRORS[code]
  const body = JSON.stringify({ error: { code, message, action } })
  const headers = {
    ...SAFE_HEADERS,
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  socket.end(`HTTP/1.1 ${http} ${reason}\r\n${lines.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy())
}
