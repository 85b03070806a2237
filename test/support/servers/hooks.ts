import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import { onTestFinished } from 'vitest'

export interface ReceivedHook {
  path: string
  method: string
  headers: IncomingHttpHeaders
  body: string
}

export interface HookServer {
  url: string
  port: number
  hooks: ReceivedHook[]
}

/** A real receiver of webhooks. `answer` may leave a request without an answer. */
export async function hookServer(
  answer: (response: ServerResponse, times: number, hook: ReceivedHook) => void = (response) => response.end('thanks'),
): Promise<HookServer> {
  const hooks: ReceivedHook[] = []
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      const { url: path = '', method = '', headers } = request
      const hook = { path, method, headers, body: Buffer.concat(parts).toString() }
      hooks.push(hook)
      answer(response, hooks.length, hook)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    return new Promise<void>((resolve) => server.close(() => resolve()))
  })
  const { port } = server.address() as { port: number }
  return { url: `http://127.0.0.1:${port}/hook`, port, hooks }
}
