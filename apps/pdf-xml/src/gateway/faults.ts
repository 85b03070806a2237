import { setTimeout as wait } from 'node:timers/promises'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import { Refusal } from './refusals.ts'
import { drain } from './upload.ts'

/** A fault that a drill can request: when it applies and what it does. */
const faultSchema = z
  .strictObject({
    status: z.int().min(400).max(599).optional(),
    delayMs: z.int().min(0).max(600_000).optional(),
    drop: z.enum(['before', 'during']).optional(),
    at: z.enum(['request', 'parsing']).default('request'),
    share: z.number().min(0).max(1).default(1),
    count: z.int().min(1).optional(),
    forMs: z.int().min(1).optional(),
    health: z.boolean().default(false),
  })
  .refine(({ status, delayMs, drop }) => status !== undefined || delayMs !== undefined || drop !== undefined, {
    message: 'Name a fault: status, delayMs or drop.',
  })
  .refine(({ status, drop }) => status === undefined || drop === undefined, {
    message: 'status and drop exclude each other: give one of them.',
  })
  .refine(
    ({ at, status, drop, health }) => at === 'request' || (status === undefined && drop === undefined && !health),
    {
      message: 'At parsing, only a delay is possible: give delayMs alone.',
    },
  )

export type Fault = z.output<typeof faultSchema>

/** Makes the gateway fail as it was asked to. Which requests are struck is counted, not drawn: a drill can be repeated. */
export class Faults {
  #fault: Fault | undefined
  #untilMs = Number.POSITIVE_INFINITY
  #seen = 0
  #struck = 0
  readonly #nowMs: () => number

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  set(fault: Fault): void {
    this.#fault = fault
    this.#untilMs = fault.forMs === undefined ? Number.POSITIVE_INFINITY : this.#nowMs() + fault.forMs
    this.#seen = 0
    this.#struck = 0
  }

  clear(): void {
    this.#fault = undefined
  }

  get state(): { fault: Fault | null; seen: number; struck: number } {
    return { fault: this.#current() ?? null, seen: this.#seen, struck: this.#struck }
  }

  /** The fault that this request meets, if it meets one. */
  faultFor(isHealth: boolean): Fault | undefined {
    return isHealth && this.#current()?.health !== true ? undefined : this.#take('request')
  }

  /** Delays a document inside its parser. */
  async delayParsing(signal: AbortSignal): Promise<void> {
    const delayMs = this.#take('parsing')?.delayMs
    if (delayMs !== undefined) await wait(delayMs, undefined, { signal, ref: false }).catch(() => undefined)
  }

  #take(at: Fault['at']): Fault | undefined {
    const fault = this.#current()
    if (fault?.at !== at) return undefined
    const before = Math.floor(this.#seen * fault.share)
    this.#seen++
    if (Math.floor(this.#seen * fault.share) === before) return undefined
    this.#struck++
    return fault
  }

  #current(): Fault | undefined {
    const fault = this.#fault
    if (fault === undefined || this.#nowMs() >= this.#untilMs) return undefined
    return fault.count !== undefined && this.#struck >= fault.count ? undefined : fault
  }
}

const BEGUN = '<?xml version="1.0" encoding="UTF-8"?>\n<document'

/** Only with `--faults`: a client that can request faults can stop the service. */
export function addFaults(server: FastifyInstance, faults: Faults): void {
  server.post('/faults', async (request, reply) => {
    const fault = faultSchema.safeParse(request.body)
    if (!fault.success) {
      const [issue] = fault.error.issues
      throw new Refusal('REQUEST_INVALID', [issue?.path.join('.'), issue?.message].filter(Boolean).join(': '))
    }
    faults.set(fault.data)
    return reply.status(201).send(faults.state)
  })
  server.get('/faults', async () => faults.state)
  server.delete('/faults', async (_request, reply) => {
    faults.clear()
    return reply.status(204).send()
  })
  server.addHook('onRequest', async (request, reply) => {
    const path = request.routeOptions.url
    if (path !== '/process' && path !== '/health') return
    const fault = faults.faultFor(path === '/health')
    if (fault !== undefined) await applyFault(fault, request, reply)
  })
}

async function applyFault(fault: Fault, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  if (fault.delayMs !== undefined) {
    const gone = new AbortController()
    const leave = () => gone.abort()
    request.raw.socket.once('close', leave)
    await wait(fault.delayMs, undefined, { signal: gone.signal, ref: false }).catch(() => undefined)
    // The next request may come over the same connection.
    request.raw.socket.off('close', leave)
  }
  if (fault.drop !== undefined) {
    reply.hijack()
    if (fault.drop === 'before') request.raw.socket.destroy()
    else {
      reply.raw.writeHead(200, { 'content-type': 'application/xml; charset=utf-8', 'content-length': 100_000 })
      reply.raw.write(BEGUN, () => request.raw.socket.destroy())
    }
  } else if (fault.status !== undefined) {
    drain(request.raw)
    throw new Refusal('FAULT', 'This fault was requested.', { status: fault.status })
  }
}
