import type { FastifyInstance, FastifyReply } from 'fastify'

export interface Refusal {
  status: number
  code: string
  message: string
  action: string
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

export function answerRefusals(server: FastifyInstance): void {
  server.setErrorHandler((error, _request, reply) => {
    // Whatever else is thrown is the server's to answer.
    if (!(error instanceof Refused)) throw error
    return sendRefusal(reply, error.refusal)
  })
}

export function sendRefusal(reply: FastifyReply, { status, headers = {}, ...error }: Refusal): FastifyReply {
  const { code, message, action } = error
  return reply
    .code(status)
    .headers({ 'cache-control': 'no-store', ...headers })
    .send({ error: { code, message, action } })
}
