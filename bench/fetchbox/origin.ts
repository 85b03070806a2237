/** The origin, in a process of its own: every path is a resource of as many bytes as it says, `/4096/17`. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

const bodies = new Map<number, Buffer>()

function bodyOf(bytes: number): Buffer {
  let body = bodies.get(bytes)
  if (body === undefined) {
    body = Buffer.alloc(bytes, 'what was asked for ')
    bodies.set(bytes, body)
  }
  return body
}

const server = createServer({ keepAlive: true, keepAliveTimeout: 60_000 }, (request, response) => {
  const body = bodyOf(Number(request.url?.split('/')[1]))
  response.writeHead(200, { 'content-length': body.byteLength, 'content-type': 'application/octet-stream' })
  response.end(body)
})
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port))
process.once('disconnect', () => process.exit())
