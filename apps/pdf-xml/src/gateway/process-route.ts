import { randomUUID } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Log } from 'redress'
import type { Faults } from './faults.ts'
import { InterimResponses, PARSERS_HEADER } from './interim-responses.ts'
import { idOf, type Mappings } from './mappings.ts'
import type { ParserPool } from './pool.ts'
import { Refusal } from './refusals.ts'
import { counted, drain, receive } from './upload.ts'

interface ProcessParts {
  pool: ParserPool
  mappings: Mappings
  /** Documents are kept here until a parser takes them. */
  folder: string
  bytesMax: number
  generator: string
  log: Log
  faults: Faults | undefined
}

export function addProcess(server: FastifyInstance, parts: ProcessParts): void {
  // The route reads the body to a file itself: when it starts, only the headers have been read.
  server.addContentTypeParser('*', (_request, _payload, done) => done(null))
  server.post('/process', async (request, reply) => {
    const startedMs = performance.now()
    const gone = new AbortController()
    reply.raw.once('close', () => gone.abort(new Error('the client hung up')))
    reply.header(PARSERS_HEADER, parts.pool.parsers)
    const interim = new InterimResponses(request.raw, reply.raw, parts.pool.parsers)
    try {
      const { pages, xml, mapping } = await processed(request, gone.signal, interim, parts)
      const tookMs = Math.round(performance.now() - startedMs)
      parts.log.info({ event: 'processed', mapping, pages, duration_ms: tookMs }, 'a document was processed')
      const { size } = await xml.stat()
      return reply
        .type('application/xml; charset=utf-8')
        .headers({ 'content-length': size, 'x-mapping': mapping, 'x-pages': pages, 'x-parse-ms': tookMs })
        .send(counted(xml.createReadStream()))
    } catch (error) {
      drain(request.raw)
      throw error
    } finally {
      interim.end()
    }
  })
}

async function processed(request: FastifyRequest, gone: AbortSignal, interim: InterimResponses, parts: ProcessParts) {
  const mapping = parts.mappings.find((request.query as { mapping?: string }).mapping)
  checkHeaders(request)
  const place = parts.pool.enter(gone)
  interim.waiting()
  const path = join(parts.folder, `${randomUUID()}.pdf`)
  try {
    await receive(request.raw, path, parts.bytesMax)
    const begins = async () => {
      interim.parsing()
      await parts.faults?.delayParsing(gone)
    }
    const { pages, xml } = await place.parse(path, { mapping, generator: parts.generator }, begins)
    return { pages, xml, mapping: idOf(mapping) }
  } finally {
    place.leave()
    await rm(path, { force: true })
  }
}

function checkHeaders({ headers }: FastifyRequest): void {
  const type = headers['content-type']?.split(';')[0]?.trim().toLowerCase()
  if (type !== 'application/pdf') {
    throw new Refusal('UNSUPPORTED_MEDIA_TYPE', 'Only application/pdf is accepted.')
  }
  if (!acceptsXml(headers.accept ?? '*/*')) {
    throw new Refusal('NOT_ACCEPTABLE', 'The answer is application/xml, which the request does not accept.')
  }
}

/** The most specific range decides: 'application/xml;q=0, *' refuses XML. */
function acceptsXml(accept: string): boolean {
  const ranges = accept.split(',').map((range) => {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase())
    const quality = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2)
    return { type, isWanted: quality === undefined || Number(quality) > 0 }
  })
  const decisive = ['application/xml', 'application/*', '*/*'].map((type) =>
    ranges.find((range) => range.type === type),
  )
  return decisive.find((range) => range !== undefined)?.isWanted ?? false
}
