import { createServer, connect as dial, type Server, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

export interface Relay {
  /** The same database, by way of the relay. */
  url: string
  connections(): number
  /** From now on nothing that the server says gets through on the connections that are there. */
  deafen(): void
  /** The same on the connection that says this next, from that moment on; what it says still gets through. */
  deafenAt(text: string): void
  isDeaf(): boolean
  /** Holds back everything in both directions, on connections that are there and on new ones, and resets none. */
  silence(): void
  /** Ends the silence. What was held back arrives late, on the connections that are still there. */
  speak(): void
  /** Ends all connections that are there. */
  cut(): void
}

interface Line {
  client: Socket
  upstream: Socket
  isDeaf: boolean
  /** What a silent relay has not passed on yet. */
  held: (() => void)[]
}

/** Stands between client and server, and can lose what is said. */
export async function openRelay(target: string): Promise<Relay> {
  const { hostname, port } = new URL(target)
  const lines = new Set<Line>()
  let count = 0
  let deafenedAt: string | null = null
  let isSilent = false
  const pass = (line: Line, send: () => void): void => void (isSilent ? line.held.push(send) : send())
  const relay: Server = createServer((client) => {
    count++
    const line: Line = { client, upstream: dial(Number(port), hostname), isDeaf: false, held: [] }
    const { upstream } = line
    lines.add(line)
    client.on('data', (data) => {
      if (deafenedAt !== null && data.includes(deafenedAt)) {
        line.isDeaf = true
        deafenedAt = null
      }
      pass(line, () => upstream.write(data))
    })
    upstream.on('data', (data) => void (line.isDeaf || pass(line, () => client.write(data))))
    client.on('error', () => upstream.destroy()).on('close', () => upstream.destroy())
    upstream.on('error', () => client.destroy())
    upstream.on('close', () => {
      client.destroy()
      lines.delete(line)
    })
  })
  await new Promise<void>((resolve) => relay.listen(0, '127.0.0.1', resolve))
  const url = new URL(target)
  url.port = String((relay.address() as { port: number }).port)
  const cut = (): void => {
    for (const { client, upstream } of lines) for (const one of [client, upstream]) one.destroy()
  }
  onTestFinished(() => {
    cut()
    relay.close()
  })
  return {
    url: url.href,
    connections: () => count,
    deafen: () => {
      for (const line of lines) line.isDeaf = true
    },
    deafenAt: (text) => {
      deafenedAt = text
    },
    silence: () => {
      isSilent = true
    },
    speak: () => {
      isSilent = false
      for (const line of lines) for (const send of line.held.splice(0)) send()
    },
    isDeaf: () => [...lines].some(({ isDeaf }) => isDeaf),
    cut,
  }
}
