import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fastify, { type FastifyInstance } from 'fastify'
import type { Log } from 'redress'
import manifest from 'redress/package.json' with { type: 'json' }
import { addFaults, Faults } from './faults.ts'
import { PARSERS_HEADER, STATE_HEADER } from './interim-responses.ts'
import { findIsolation } from './isolation.ts'
import { mappingJsonSchema } from './mapping-schema.ts'
import { Mappings, problemText } from './mappings.ts'
import { ParserPool } from './pool.ts'
import { addProcess } from './process-route.ts'
import { RETRY_AFTER_S, Refusal } from './refusals.ts'

export interface GatewayOptions {
  /** '127.0.0.1' when left out: reachable from this machine only. */
  host?: string
  /** 0, which is the default, takes one that is free. */
  port?: number
  /** A folder with mappings of your own, beside those that ship. */
  mappingsDir?: string
  /** How many documents are parsed at the same time. */
  parsers?: number
  /** How many more requests may wait; the next one is answered 503. */
  queueMax?: number
  /** How long one document may take. */
  parseMs?: number
  /** How much memory the process that parses a document may have, with Node and pdf.js (about 120 MB) in it. */
  memoryMb?: number
  bytesMax?: number
  pagesMax?: number
  xmlBytesMax?: number
  /** Adds POST /faults, with which every client can make the gateway fail: for tests and drills. */
  faults?: boolean
  /** How long running documents may continue when the gateway stops. */
  stopGraceMs?: number
  log?: Log
}

export interface Gateway {
  url: string
  stop(): Promise<void>
}

/**
 * One parser with 330 MB and the gateway process stay below 512 MB for any document. Two parsers with half of that
 * each would be faster, but would refuse valid documents: 48 MB of scans, or a page of 100,000 words.
 */
const DEFAULTS = {
  host: '127.0.0.1',
  port: 0,
  parsers: 1,
  queueMax: 16,
  parseMs: 60_000,
  memoryMb: 330,
  bytesMax: 50 * 2 ** 20,
  pagesMax: 5_000,
  xmlBytesMax: 256 * 2 ** 20,
  faults: false,
  stopGraceMs: 5_000,
} as const

const REQUEST_MS_MAX = 300_000
const ANSWER_MS_MAX = 5_000
const CLOSE_IDLE_MS = 20
const FOLDER = 'redress-gateway-'
const XSD = new URL('./schema/pdf-xml-1.xsd', import.meta.url)

const nothing = () => undefined
const SILENT: Log = { debug: nothing, info: nothing, warn: nothing, error: nothing }

export async function startGateway(given: GatewayOptions = {}): Promise<Gateway> {
  const options = { ...DEFAULTS, log: SILENT, ...withoutUndefined(given) }
  const { log } = options
  const mappings = Mappings.load(options.mappingsDir)
  for (const { problems } of mappings.broken) {
    for (const problem of problems) log.warn({ event: 'mapping_broken' }, problemText(problem))
  }
  const xsd = await readFile(XSD, 'utf8')
  const folder = await makeFolder()
  const isolation = await findIsolation()
  const { whyOpen } = isolation
  if (whyOpen !== null) {
    log.warn(
      { event: 'parser_network_open', why: whyOpen },
      'this machine cannot take the network from the processes that parse documents: keep the gateway in a network of its own',
    )
  }
  const pool = new ParserPool({ ...options, isolation, folder })
  const faults = options.faults ? new Faults(() => performance.now()) : undefined
  const server = fastify({ logger: false, requestTimeout: REQUEST_MS_MAX, forceCloseConnections: 'idle' })

  answerRefusals(server, log)
  server.get('/health', async (_request, reply) => {
    const status = pool.isStopping ? 'stopping' : pool.isSaturated ? 'saturated' : 'ok'
    reply.headers({ [STATE_HEADER]: status, [PARSERS_HEADER]: pool.parsers })
    if (status !== 'ok') reply.status(503).header('retry-after', RETRY_AFTER_S)
    return {
      status,
      parsers: pool.state,
      network: whyOpen === null ? 'closed' : 'open',
      mappings: mappings.entries.map(({ name, version }) => `${name}@${version}`),
      broken: mappings.broken,
      version: manifest.version,
    }
  })
  server.get('/mappings', async () => ({ mappings: mappings.entries, broken: mappings.broken }))
  server.get('/schema/pdf-xml-1.xsd', (_request, reply) => reply.type('application/xml; charset=utf-8').send(xsd))
  server.get('/schema/mapping-1.json', (_request, reply) =>
    reply.type('application/schema+json; charset=utf-8').send(JSON.stringify(mappingJsonSchema())),
  )
  if (faults !== undefined) addFaults(server, faults)
  addProcess(server, {
    pool,
    mappings,
    folder: join(folder, 'uploads'),
    bytesMax: options.bytesMax,
    generator: `redress-gateway/${manifest.version}`,
    log,
    faults,
  })

  try {
    await pool.warm()
    await server.listen({ host: options.host, port: options.port })
  } catch (error) {
    await pool.stop(0)
    await rm(folder, { recursive: true, force: true })
    throw error
  }
  const { address, family, port } = server.server.address() as AddressInfo
  const url = `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`
  log.info({ event: 'gateway_listens', url }, 'the gateway listens')
  let stopped: Promise<void> | undefined
  return {
    url,
    stop() {
      stopped ??= stop(server, pool, folder, options.stopGraceMs)
      return stopped
    },
  }
}

async function stop(server: FastifyInstance, pool: ParserPool, folder: string, graceMs: number): Promise<void> {
  await pool.stop(graceMs)
  // Clients that were just refused, or are reading a result, get a moment to finish. Then their connections are idle.
  const idle = setInterval(() => server.server.closeIdleConnections(), CLOSE_IDLE_MS)
  const late = setTimeout(() => server.server.closeAllConnections(), ANSWER_MS_MAX)
  await server.close()
  clearInterval(idle)
  clearTimeout(late)
  await rm(folder, { recursive: true, force: true })
}

/** Removes the folders of killed gateways; each folder has the process id in its name. */
async function makeFolder(): Promise<string> {
  for (const name of await readdir(tmpdir())) {
    const pid = name.startsWith(FOLDER) ? Number(/^\d+/.exec(name.slice(FOLDER.length))?.[0]) : Number.NaN
    if (Number.isInteger(pid) && !isAlive(pid)) await rm(join(tmpdir(), name), { recursive: true, force: true })
  }
  const folder = await mkdtemp(join(tmpdir(), `${FOLDER}${process.pid}-`))
  await mkdir(join(folder, 'uploads'))
  return folder
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

function answerRefusals(server: FastifyInstance, log: Log): void {
  server.setNotFoundHandler(async (request) => {
    throw new Refusal('NOT_FOUND', `There is no ${request.method} ${request.url.split('?')[0]?.slice(0, 80)} here.`)
  })
  server.setErrorHandler((error: Error & { statusCode?: number }, request, reply) => {
    const refusal = refusalOf(error)
    const fields = { event: 'refused', code: refusal.code, path: request.routeOptions.url, error: refusal.cause }
    // One that had a parser killed for its memory is the caller's fault, and yet worth knowing of.
    if (refusal.status >= 500 || refusal.code === 'MEMORY') log.warn(fields, refusal.message)
    else log.info(fields, refusal.message)
    if (refusal.status === 503) reply.header('retry-after', RETRY_AFTER_S)
    return reply.status(refusal.status).type('application/json; charset=utf-8').send(refusal.body)
  })
}

function refusalOf(error: Error & { statusCode?: number }): Refusal {
  if (error instanceof Refusal) return error
  if (error.statusCode === 415) return new Refusal('UNSUPPORTED_MEDIA_TYPE', 'This content type is not accepted.')
  if (error.statusCode === 413) return new Refusal('TOO_LARGE', 'The body of this request is too large.')
  if (error.statusCode !== undefined && error.statusCode < 500) {
    return new Refusal('REQUEST_INVALID', 'This request cannot be read.', { cause: error })
  }
  return new Refusal('INTERNAL', 'The gateway failed; the document is not the reason.', { cause: error })
}

function withoutUndefined<T extends object>(options: T): T {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as T
}
