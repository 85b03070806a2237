import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Caller } from '../../operations/caller.ts'
import { IS_CHECKOUT, PACKAGE } from '../../runtime/manifest.ts'
import type { FindCaller } from '../callers/callers.ts'
import { type CookieShape, sendToSignIn } from '../callers/sign-in.ts'
import { notBuiltPage } from '../pages.ts'
import { hasTag } from './send-file.ts'

/** The pages that show something to owners. The other pages need data that only operators may read. */
const OF_OWNERS: ReadonlySet<string> = new Set(['/jobs', '/jobs/:id', '/batches', '/batches/:id'])

/** Paths of the dashboard. All of them get the same document, which renders the page. */
const PAGES = [
  '/',
  '/failures',
  '/failures/:fingerprint',
  '/jobs',
  '/jobs/:id',
  '/batches',
  '/batches/:id',
  '/dead-letters',
  '/dead-letters/:offset',
  '/replays',
  '/replays/new',
  '/replays/:id',
  '/orphans',
  '/breakers',
  '/queues',
  '/workers',
  '/schedules',
  '/policies',
  '/policies/:type',
  '/audit',
] as const

const TYPES: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
}

/** In a checkout, `npm install` has built it. */
const FOLDER = join(PACKAGE, IS_CHECKOUT ? 'dashboard/dist' : 'dist/dashboard')

interface Asset {
  type: string
  plain: Buffer
  /** Compressed when a browser first asks for it: many servers live without ever showing a page. */
  gzip: () => Buffer
  brotli: () => Buffer
}

/** The operator's pages: static files that read the same HTTP API as everybody. */
export function addDashboard(
  server: FastifyInstance,
  { findCaller, cookie, homeOf }: { findCaller: FindCaller; cookie: CookieShape; homeOf: (caller: Caller) => string },
): void {
  const isBuilt = existsSync(join(FOLDER, 'index.html'))
  const document = isBuilt ? readAsset(join(FOLDER, 'index.html'), 'text/html; charset=utf-8') : null
  const tag = document && createHash('sha256').update(document.plain).digest('base64url').slice(0, 22)
  const assets = isBuilt ? assetsIn(join(FOLDER, 'assets')) : new Map<string, Asset>()

  for (const path of PAGES) {
    server.get(path, async (request, reply) => {
      // Unknown visitors are sent to the sign-in. An unreachable store throws its own error.
      const caller = await findCaller(request)
      if (caller === null) return sendToSignIn(request, reply, cookie)
      if (caller.role === 'owner' && !OF_OWNERS.has(path)) return reply.redirect(homeOf(caller), 303)
      void reply.header('cache-control', 'no-cache').header('vary', 'accept-encoding')
      if (document === null || tag === null) return reply.code(503).type('text/html').send(notBuiltPage())
      if (hasTag(request.headers['if-none-match'] ?? '', tag))
        return reply.code(304).header('etag', `W/"${tag}"`).send()
      // Weak: the same tag covers the document in every encoding.
      return send(request, reply.header('etag', `W/"${tag}"`), document)
    })
  }

  server.get('/assets/:name', async (request, reply) => {
    const { name } = request.params as { name: string }
    const asset = assets.get(name)
    if (asset === undefined) return reply.callNotFound()
    // Its name is made from its content.
    void reply.header('cache-control', 'public, max-age=31536000, immutable').header('vary', 'accept-encoding')
    return send(request, reply, asset)
  })
}

function send(request: FastifyRequest, reply: FastifyReply, { type, plain, gzip, brotli }: Asset): FastifyReply {
  const accepted = String(request.headers['accept-encoding'] ?? '')
  void reply.type(type)
  if (/\bbr\b/.test(accepted)) return reply.header('content-encoding', 'br').send(brotli())
  if (/\bgzip\b/.test(accepted)) return reply.header('content-encoding', 'gzip').send(gzip())
  return reply.send(plain)
}

function assetsIn(folder: string): Map<string, Asset> {
  const typeOf = (name: string): string | undefined => TYPES[name.split('.').at(-1) ?? '']
  return new Map(
    readdirSync(folder).flatMap((name): [string, Asset][] => {
      const type = typeOf(name)
      return type === undefined ? [] : [[name, readAsset(join(folder, name), type)]]
    }),
  )
}

/** Small and few: all of them are kept, in the shapes that browsers take. */
function readAsset(path: string, type: string): Asset {
  const plain = readFileSync(path)
  const params = { [constants.BROTLI_PARAM_QUALITY]: 5 }
  return { type, plain, gzip: once(() => gzipSync(plain)), brotli: once(() => brotliCompressSync(plain, { params })) }
}

function once<T>(make: () => T): () => T {
  let made: T | undefined
  return () => {
    made ??= make()
    return made
  }
}
