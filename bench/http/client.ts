import { connect, type Socket } from 'node:net'

/** What the client process is told. Each connection sends one request after another, as programs do that wait. */
export interface Load {
  port: number
  connections: number
  requests: number
  method: string
  path: string
  token: string
  /** `N` in it becomes the number of the request. */
  body: string | null
}

export interface Measured {
  perSecond: number
  p50Ms: number
  p99Ms: number
  statuses: Record<string, number>
}

/** By hand, over bare sockets: a client library would take as much of the machine as the server that is measured. */
async function measure(load: Load): Promise<Measured> {
  const { port, connections, requests } = load
  const statuses: Record<string, number> = {}
  const tookMs: number[] = []
  let next = 0
  const beganMs = performance.now()
  const one = async () => {
    const socket = connect(port, '127.0.0.1').setNoDelay(true)
    await new Promise((resolve) => socket.once('connect', resolve))
    while (next < requests) {
      const sentMs = performance.now()
      const status = await exchange(socket, bytesOf(load, next++))
      tookMs.push(performance.now() - sentMs)
      statuses[status] = (statuses[status] ?? 0) + 1
    }
    socket.destroy()
  }
  await Promise.all(Array.from({ length: connections }, one))
  const perSecond = requests / ((performance.now() - beganMs) / 1000)
  tookMs.sort((a, b) => a - b)
  const at = (share: number): number => tookMs[Math.floor((tookMs.length - 1) * share)] ?? 0
  return { perSecond, p50Ms: at(0.5), p99Ms: at(0.99), statuses }
}

function bytesOf({ method, path, token, body, port }: Load, n: number): string {
  const text = body?.replace('N', String(n)) ?? ''
  const head = `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${token}\r\n`
  if (body === null) return `${head}\r\n`
  return `${head}Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`
}

function exchange(socket: Socket, bytes: string): Promise<string> {
  return new Promise((resolve) => {
    let received: Buffer = Buffer.alloc(0)
    const take = (part: Buffer) => {
      received = received.length === 0 ? part : Buffer.concat([received, part])
      const headEnd = received.indexOf('\r\n\r\n')
      if (headEnd < 0) return
      const head = received.subarray(0, headEnd).toString('latin1')
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0)
      if (received.length < headEnd + 4 + length) return
      socket.off('data', take)
      resolve(head.slice(9, 12))
    }
    socket.on('data', take)
    socket.write(bytes)
  })
}

process.once('message', (load: Load) => {
  void measure(load).then((measured) => process.send?.(measured, () => process.disconnect()))
})
