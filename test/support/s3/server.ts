import './load-sdk.ts'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Answer, errorAnswer, S3Error } from './answers.ts'
import { Bucket, OBJECT_OPERATIONS } from './objects.ts'
import { decodePayload } from './payload.ts'
import { readRequest, type S3Request } from './request.ts'
import { type Credentials, checkSignature } from './signature.ts'
import { UPLOAD_OPERATIONS } from './uploads.ts'

/** Which requests a fault is for; what is left out matches everything. */
export interface FaultTarget {
  operation?: string
  key?: string
  partNumber?: number
  /** How many requests it hits; one, unless told. */
  times?: number
}

export type Fault =
  /** Refuses instead of doing it. */
  | { kind: 'answer'; code: string; status: number; headers?: Record<string, string> }
  /** Breaks the connection when this much of the request's body has come. */
  | { kind: 'cut-request'; afterBytes: number }
  /** Does it, and breaks the connection when this much of the answer's body has gone. */
  | { kind: 'cut-answer'; afterBytes: number }
  /** Does it, and breaks the connection without a word. */
  | { kind: 'lose-answer' }
  /** Does it, and sends only this much of the answer's body, then nothing more. */
  | { kind: 'fall-silent'; afterBytes: number }
  /** Does it, and waits with the answer until `release` is called. */
  | { kind: 'hold' }

const OPERATIONS = { ...OBJECT_OPERATIONS, ...UPLOAD_OPERATIONS }

interface PlannedFault {
  target: FaultTarget
  fault: Fault
  left: number
}

/**
 * A small server of the S3 protocol for tests: real signatures, checksums and parts, kept in memory, on the loopback
 * interface only. What it does not know it refuses. Faults are planned request by request.
 */
export class S3Server {
  readonly region = 'test-1'
  readonly credentials: Credentials = { accessKeyId: 'TESTKEY', secretAccessKey: 'a secret/of+40 characters' }
  readonly buckets = new Map<string, Bucket>()
  /** Every request that came, also those that were refused. */
  readonly requests: S3Request[] = []
  readonly #server: Server
  readonly #faults: PlannedFault[] = []
  readonly #held: (() => void)[] = []

  private constructor(buckets: readonly string[]) {
    for (const name of buckets) this.buckets.set(name, new Bucket())
    this.#server = createServer((request, response) => void this.#serve(request, response))
  }

  static async start({ buckets = ['artifacts'] }: { buckets?: readonly string[] } = {}): Promise<S3Server> {
    const server = new S3Server(buckets)
    server.#server.listen(0, '127.0.0.1')
    await once(server.#server, 'listening')
    return server
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** As artifactStore takes it. */
  storeUrl(bucket = 'artifacts', prefix = ''): string {
    return `s3://${bucket}/${prefix}?region=${this.region}&endpoint=${encodeURIComponent(this.url)}`
  }

  bucket(name = 'artifacts'): Bucket {
    const bucket = this.buckets.get(name)
    if (bucket === undefined) throw new S3Error('NoSuchBucket', 404, 'the specified bucket does not exist')
    return bucket
  }

  plan(fault: Fault, target: FaultTarget = {}): void {
    this.#faults.push({ fault, target, left: target.times ?? 1 })
  }

  /** Lets the answers go that are held. */
  release(): void {
    for (const go of this.#held.splice(0)) go()
  }

  get heldCount(): number {
    return this.#held.length
  }

  operations(): string[] {
    return this.requests.map(({ operation }) => operation)
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const asked = readRequest(request)
    this.requests.push(asked)
    const fault = this.#takeFault(asked)
    try {
      const sent = await collect(request, fault?.kind === 'cut-request' ? fault.afterBytes : null)
      if (sent === null) return
      const answer = this.#answer(request, asked, sent, fault)
      if (fault?.kind === 'hold') await new Promise<void>((go) => this.#held.push(go))
      send(response, answer, asked.method === 'HEAD', fault)
    } catch {
      // The client has gone; what it was told does not matter any more.
      response.destroy()
    }
  }

  #answer(request: IncomingMessage, asked: S3Request, sent: Buffer, fault: Fault | undefined): Answer {
    try {
      const signing = checkSignature(request, this.credentials, this.region)
      const body = decodePayload(request, sent, signing)
      if (fault?.kind === 'answer') {
        const refusal = errorAnswer(new S3Error(fault.code, fault.status, 'planned by the test'))
        return { ...refusal, headers: { ...refusal.headers, ...fault.headers } }
      }
      const operation = OPERATIONS[asked.operation]
      if (operation === undefined) throw new S3Error('NotImplemented', 501, 'this server does not know how')
      return operation(this.bucket(asked.bucket), asked, body)
    } catch (error) {
      return errorAnswer(error instanceof S3Error ? error : new S3Error('InternalError', 500, String(error)))
    }
  }

  #takeFault({ operation, key, partNumber }: S3Request): Fault | undefined {
    const planned = this.#faults.find(
      ({ left, target }) =>
        left > 0 &&
        (target.operation ?? operation) === operation &&
        (target.key ?? key) === key &&
        (target.partNumber ?? partNumber) === partNumber,
    )
    if (planned !== undefined) planned.left--
    return planned?.fault
  }
}

/** The whole body; null when the connection was cut on purpose. */
async function collect(request: IncomingMessage, cutAfterBytes: number | null): Promise<Buffer | null> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request) {
    chunks.push(chunk)
    bytes += chunk.length
    if (cutAfterBytes !== null && bytes >= cutAfterBytes) {
      request.destroy()
      return null
    }
  }
  return Buffer.concat(chunks)
}

function send(response: ServerResponse, answer: Answer, isHead: boolean, fault: Fault | undefined): void {
  if (fault?.kind === 'lose-answer') {
    response.destroy()
    return
  }
  const body = Buffer.from(answer.body ?? '')
  const length = answer.status === 204 ? {} : { 'content-length': String(body.byteLength) }
  response.writeHead(answer.status, { ...length, ...answer.headers })
  if (isHead) {
    response.end()
    return
  }
  if (fault?.kind === 'cut-answer') response.write(body.subarray(0, fault.afterBytes), () => response.destroy())
  else if (fault?.kind === 'fall-silent') response.write(body.subarray(0, fault.afterBytes))
  else response.end(body)
}
