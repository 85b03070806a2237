import { connect, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** A connection on which a test sends what it likes. */
export interface RawConnection {
  socket: Socket
  /** All that came so far. */
  received(): string
  /** When the other side has closed it. */
  closed: Promise<void>
}

export function openRawConnection(url: string): Promise<RawConnection> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname)
    const parts: Buffer[] = []
    socket.on('data', (part) => parts.push(part))
    const closed = new Promise<void>((done) => socket.once('close', () => done()))
    socket.once('error', reject)
    socket.once('connect', () => {
      socket.off('error', reject)
      // That the other side hangs up is what is waited for.
      socket.on('error', () => undefined)
      resolve({ socket, received: () => Buffer.concat(parts).toString(), closed })
    })
    onTestFinished(() => void socket.destroy())
  })
}

/** Sends these bytes, and answers with all that came until the other side closed the connection. */
export async function sendRaw(url: string, bytes: string | Buffer): Promise<string> {
  const { socket, received, closed } = await openRawConnection(url)
  socket.write(bytes)
  await closed
  return received()
}
