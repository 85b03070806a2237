import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

export interface ReceivedSpan {
  service: string
  name: string
  traceId: string
  spanId: string
  parentSpanId?: string
  kind: number
  attributes: Record<string, string | number | boolean>
  status: { code?: number; message?: string }
}

interface Value {
  stringValue?: string
  intValue?: number | string
  doubleValue?: number
  boolValue?: boolean
}

interface Attribute {
  key: string
  value: Value
}

interface Payload {
  resourceSpans: {
    resource: { attributes: Attribute[] }
    scopeSpans: { spans: (Omit<ReceivedSpan, 'service' | 'attributes'> & { attributes?: Attribute[] })[] }[]
  }[]
}

/** A collector: takes traces over OTLP/HTTP, as JSON. */
export async function otlpReceiver(): Promise<{ url: string; spans: ReceivedSpan[]; paths: string[] }> {
  const spans: ReceivedSpan[] = []
  const paths: string[] = []
  const server: Server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (part) => {
      body += part
    })
    request.on('end', () => {
      paths.push(`${request.method} ${request.url}`)
      spans.push(...spansOf(JSON.parse(body) as Payload))
      response.setHeader('content-type', 'application/json').end('{}')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, spans, paths }
}

function spansOf({ resourceSpans }: Payload): ReceivedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) => {
    const service = String(read(resource.attributes)['service.name'])
    return scopeSpans.flatMap(({ spans }) =>
      spans.map((span) => ({ ...span, service, attributes: read(span.attributes ?? []) })),
    )
  })
}

const read = (attributes: readonly Attribute[]): ReceivedSpan['attributes'] =>
  Object.fromEntries(
    attributes.map(({ key, value: { stringValue, intValue, doubleValue, boolValue } }) => [
      key,
      stringValue ?? (intValue === undefined ? (doubleValue ?? boolValue ?? '') : Number(intValue)),
    ]),
  )
