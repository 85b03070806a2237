import { connect } from 'node:net'

/** What the process of the listeners is told. */
export interface Audience {
  port: number
  token: string
  listeners: number
  /** So many connections are opened at a time. */
  atOnce: number
}

/** Says how many listen, and then, each time it is asked, how many events each of them has. */
async function listen({ port, token, listeners, atOnce }: Audience): Promise<void> {
  const heard = new Uint32Array(listeners)
  let hungUp = 0
  const one = (n: number) =>
    new Promise<void>((resolve, reject) => {
      const socket = connect(port, '127.0.0.1')
      let isOpen = false
      socket.setEncoding('latin1')
      socket.on('data', (text) => {
        if (!isOpen && String(text).includes('retry:')) {
          isOpen = true
          resolve()
        }
        heard[n] = (heard[n] ?? 0) + (String(text).match(/event: job/g)?.length ?? 0)
      })
      socket.once('close', () => hungUp++)
      socket.once('error', reject)
      socket.write(
        `GET /api/events HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${token}\r\nAccept: text/event-stream\r\n\r\n`,
      )
    })
  for (let n = 0; n < listeners; n += atOnce) {
    await Promise.all(Array.from({ length: Math.min(atOnce, listeners - n) }, (_, i) => one(n + i)))
  }
  process.on('message', () => process.send?.({ least: Math.min(...heard), hungUp }))
  process.send?.({ listening: listeners })
}

process.once('message', (audience: Audience) => void listen(audience))
