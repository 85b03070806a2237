import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'

export interface Refusal {
  status: number
  code: string
  message: string
  action: string
  /** One line for each thing that is wrong, where there may be several. */
  problems?: readonly string[]
  headers?: Readonly<Record<string, string>>
}

/** What an app's own routes refuse, in the shape of every refusal of the server. */
export class Refused extends Error {
  override readonly name = 'Refused'
  readonly refusal: Refusal

  constructor(refusal: Refusal) {
    super(refusal.message)
    this.refusal = refusal
  }
}

/** Puts a refusal on a page, for a browser; null where the words of JSON are right. */
type RefusalPage = (request: FastifyRequest, reply: FastifyReply, refusal: Refusal) => unknown

export function answerRefusals(server: FastifyInstance, onPage: RefusalPage | null = null): void {
  server.setErrorHandler((error, request, reply) => {
    // Whatever else is thrown is the server's to answer.
    if (!(error instanceof Refused)) throw error
    const { status, code, message, action, problems, headers = {} } = error.refusal
    void reply.code(status).headers({ 'cache-control': 'no-store', ...headers })
    const told = { code, message, action, ...(problems !== undefined && { problems }) }
    return onPage?.(request, reply, error.refusal) ?? reply.send({ error: told })
  })
}
