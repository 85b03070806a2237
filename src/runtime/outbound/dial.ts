import { connect, type Socket } from 'node:net'

/** TCP to an address. The address is a literal, so nothing is looked up here. */
export function dial({ address, port }: { address: string; port: number }, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: address, port, autoSelectFamily: false, noDelay: true, keepAlive: true })
    const stop = () => socket.destroy(signal.reason as Error)
    signal.addEventListener('abort', stop, { once: true })
    socket.once('connect', () => {
      signal.removeEventListener('abort', stop)
      socket.off('error', reject)
      resolve(socket)
    })
    socket.once('error', reject)
    socket.once('close', () => signal.removeEventListener('abort', stop))
    if (signal.aborted) stop()
  })
}
