import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { RedressError } from '../../core/errors.ts'
import type { LetterList } from '../../operations/dead-letters/dead-letters.ts'
import { EXPORT_FORMATS, type ExportFormat, exportedLetters, OF_A_PAGE } from '../../operations/dead-letters/export.ts'
import { neededCaller } from '../callers/callers.ts'
import type { RouteOptions } from '../routes/routes.ts'

const CONTENT: Readonly<Record<ExportFormat, { type: string; file: string }>> = {
  jsonl: { type: 'application/x-ndjson; charset=utf-8', file: 'dead-letters.jsonl' },
  protobuf: {
    type: 'application/x-protobuf; delimited=true; messageType="redress.v1.DeadLetterTask"',
    file: 'dead-letters.pb',
  },
}

/** `GET /api/dead-letters/export`: the letters of a list, all of them, as they are read. */
export function addLetterExport(server: FastifyInstance, { findCaller, perform }: RouteOptions): void {
  server.get('/api/dead-letters/export', async (request, reply) => {
    const caller = await neededCaller(findCaller, request)
    const { format, filter } = asked(request)
    const list = (input: Readonly<Record<string, unknown>>) =>
      perform(caller, 'dead-letters.list', input) as Promise<LetterList>
    const letters = exportedLetters(list, filter, format)
    // A refusal must come before the first byte is sent.
    const first = await letters.next()
    const chunks = async function* () {
      if (first.done !== true) yield first.value
      yield* letters
    }
    const { type, file } = CONTENT[format]
    return reply
      .type(type)
      .header('content-disposition', `attachment; filename="${file}"`)
      .header('cache-control', 'no-store')
      .send(Readable.from(chunks(), { objectMode: false }))
  })
}

function asked({ query }: FastifyRequest): { format: ExportFormat; filter: Record<string, unknown> } {
  const { format = 'jsonl', ...filter } = query as Record<string, unknown>
  const known = EXPORT_FORMATS.find((one) => one === format)
  if (known === undefined) throw invalid(`format must be one of ${EXPORT_FORMATS.join(', ')}`)
  const twice = Object.keys(filter).find((field) => Array.isArray(filter[field]))
  if (twice !== undefined) throw invalid(`${twice} is given twice`)
  const strange = OF_A_PAGE.find((field) => field in filter)
  if (strange !== undefined) throw invalid(`${strange} is for a list; an export gives all letters`)
  return { format: known, filter }
}

const invalid = (problem: string): RedressError => new RedressError('REQUEST_INVALID', `Invalid request: ${problem}.`)
