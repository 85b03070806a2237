import type { Server } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import cookies from '@fastify/cookie'
import fastify, { type FastifyInstance, type FastifyPluginAsync, type FastifyReply, type FastifyRequest } from 'fastify'
import type { App } from '../app/app.ts'
import { RedressError } from '../core/errors.ts'
import { optionNames, refuseUnknownOptions } from '../core/text/options.ts'
import { type Caller, inScope } from '../operations/caller.ts'
import { CATALOG } from '../operations/catalog.ts'
import { type Clock, systemClock } from '../runtime/clock.ts'
import { type Log, silentLog } from '../runtime/log.ts'
import { manifest } from '../runtime/manifest.ts'
import { withinTrace } from '../tracing/tracing.ts'
import { asOwner, type FindCaller, firstOf, neededCaller, openCallers, WrongSecrets } from './callers/callers.ts'
import { type TrustedProxies, trustedProxies } from './callers/client-address.ts'
import { guard } from './callers/guard.ts'
import { addSignIn, cookieShape, sendToSignIn } from './callers/sign-in.ts'
import { addEvents, type MayHear } from './events/events.ts'
import { addDashboard } from './files/dashboard.ts'
import { addLetterExport } from './files/dead-letters-export.ts'
import { addDownloads, type FindFile } from './files/downloads.ts'
import { HTTP_LIMITS, type HttpLimits } from './limits.ts'
import { logRequests, notingCaller } from './request-log.ts'
import { answerErrors, refuse, toRedressError } from './routes/answer.ts'
import { type AppPaths, collectRoutes } from './routes/app-routes.ts'
import { openApi } from './routes/openapi.ts'
import { addTableRoutes, type RouteOptions } from './routes/routes.ts'
import { answerUnreadable, BODY_MS_MAX, endSlowBodies } from './routes/unreadable.ts'
import { addHealth, StoreAway, StoreWatch } from './store-watch.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** How long the body of a request to this route may take to arrive, where the server's own bound is too narrow. */
    bodyMs?: number
  }
}

/** The options of `startServer()`. */
export interface ServerOptions {
  app: App
  /** '127.0.0.1' when left out: reachable from this machine only. */
  host?: string
  /** 0 takes one that is free. */
  port?: number
  /** 'none' turns sign-in off; allowed only on a loopback address. */
  auth?: 'required' | 'none'
  /** 'https://jobs.example.org', where a proxy stands before the server. */
  publicUrl?: string
  allowedHosts?: readonly string[]
  /**
   * Which proxies may name the client address (X-Forwarded-For), the host and the scheme: their number, counted from
   * the server, or their addresses ('10.0.0.0/8,127.0.0.1'). `true` is one.
   */
  trustProxy?: TrustedProxies
  limits?: Partial<HttpLimits>
  log?: Log
  clock?: Clock
  /** Routes of an app's own. */
  mounts?: readonly Mount[]
}

const OPTIONS = optionNames<ServerOptions>({
  app: true,
  host: true,
  port: true,
  auth: true,
  publicUrl: true,
  allowedHosts: true,
  trustProxy: true,
  limits: true,
  log: true,
  clock: true,
  mounts: true,
})

/** Routes of an app, with access to the callers of the server. */
export type Mount = (server: FastifyInstance, tools: MountTools) => void | Promise<void>

/** What the routes of an app are made with. */
export interface MountTools {
  app: App
  findCaller: FindCaller
  /** Redirects a visitor to the sign-in, which returns to this page. */
  sendToSignIn(request: FastifyRequest, reply: FastifyReply): FastifyReply
  /** Whether people reach the server by https: then a cookie can be theirs and this host's alone. */
  isHttps: boolean
  /**
   * How to recognize people who have not signed in: as owners, and never as more. Give scopes: without them a stranger
   * could submit jobs of every type.
   */
  letIn(find: FindCaller): void
  /** What `GET /api/jobs/:id/download` gives for complete jobs of a type. */
  offerFile(type: string, find: FindFile): void
  /** Which owners may subscribe to topics of the app: of `campaign:9`, the thing is 'campaign'. Default: none. */
  letHear(thing: string, may: MayHear): void
  /** The first page of owners after sign-in; the dashboard is for operators. */
  welcomeOwners(path: string): void
}

/** A running server, as `startServer()` returns it. */
export interface HttpServer {
  /** Where it listens: 'http://127.0.0.1:7373'. */
  url: string
  /** Its public address. */
  publicUrl: string
  /** Resolves when the store has answered for the first time. */
  ready: Promise<void>
  /** Accepts no more requests, lets running ones finish, and ends the streams. */
  stop(options?: { graceMs?: number }): Promise<void>
}

const DEFAULT_PORT = 7373
const STOP_GRACE_MS = 10_000
const CHECK_MS_MAX = 5_000
/** How often connections whose request has ended are closed while stopping. */
const CLOSE_IDLE_MS = 50
/** Includes the stylesheet of the page that reports an unreachable store. */
const OPEN_WHILE_DOWN: ReadonlySet<string> = new Set(['/healthz', '/readyz', '/assets/base.css'])
const LOOPBACK = /^(127\.|localhost$|::1$|\[::1\]$)/

/** Serves the HTTP API and the dashboard for an app. */
export async function startServer(options: ServerOptions): Promise<HttpServer> {
  refuseUnknownOptions('startServer()', options, OPTIONS)
  refuseUnknownOptions('startServer(): limits', options.limits, Object.keys(HTTP_LIMITS))
  const { app, host = '127.0.0.1', port = DEFAULT_PORT, auth = 'required', log = silentLog } = options
  const clock = options.clock ?? systemClock
  const limits = { ...HTTP_LIMITS, ...options.limits }
  const publicUrl = options.publicUrl === undefined ? null : checkedUrl(options.publicUrl)
  if (auth === 'none' && !LOOPBACK.test(host)) {
    throw new RedressError('OPTION_INVALID', `Without sign-in the server must not listen on ${host}.`, {
      action: 'Listen on 127.0.0.1, or leave sign-in on.',
    })
  }
  const server = fastify({
    bodyLimit: limits.bodyBytesMax,
    // Each route has its own bound below this one: an upload takes longer than a question.
    requestTimeout: BODY_MS_MAX,
    // Also ends connections of clients that do not read: a stream sends something every 15 s.
    connectionTimeout: limits.quietMs,
    routerOptions: { maxParamLength: 500 },
    trustProxy: trustedProxies(options.trustProxy),
    forceCloseConnections: 'idle',
    // A hook of ours refuses, in the usual format.
    return503OnClosing: false,
    logger: false,
    http: {
      // The guard asks for it, and answers in the shape of every refusal.
      requireHostHeader: false,
      headersTimeout: limits.headersMs,
      connectionsCheckingInterval: Math.min(CHECK_MS_MAX, Math.ceil(limits.headersMs / 4)),
    },
    frameworkErrors: (error, request, reply) => refuse(toRedressError(error), log, request, reply),
    clientErrorHandler: answerUnreadable,
  })
  server.server.maxConnections = limits.connectionsMax
  const unused = unusedConnections(server.server)
  const watch = new StoreWatch(app, clock, log)
  const store = () => app.store()
  const isHttps = publicUrl?.startsWith('https:') ?? false
  const cookie = cookieShape(isHttps)
  const wrong = new WrongSecrets(clock, limits.wrongSecretsPerMinute)
  const known = openCallers({ store, wrong, cookieName: cookie.name, isAuthOn: auth === 'required' })
  const guests: FindCaller[] = []
  const findCaller = notingCaller((request) => watch.answered(firstOf([known, ...guests], request)))

  logRequests(server, log)
  receiveTraces(server)
  answerErrors(server, log, app.codes.messageOf)
  guard(server, { publicUrl, allowedHosts: options.allowedHosts ?? [] })
  endSlowBodies(server, limits.requestMs)
  await server.register(cookies)
  readBodies(server)
  addHealth(server, () => watch.readiness())
  let isStopping = false
  server.addHook('onRequest', async (request, reply) => {
    if (isStopping) throw new RedressError('SERVER_STOPPING', 'This server is stopping.')
    if (watch.isUp || OPEN_WHILE_DOWN.has(request.routeOptions.url ?? '')) return
    return refuse(new StoreAway(), log, request, reply)
  })
  let ownersPage = '/jobs'
  const homeOf = ({ role }: Caller): string => (role === 'owner' ? ownersPage : '/')
  addSignIn(server, { store, wrong, findCaller, cookie, homeOf })
  const routes: RouteOptions = {
    findCaller,
    perform(caller, name, input) {
      const done = app.performAs(caller, name, input)
      // A mutation is awaited: the server must not report it as failed while it may still succeed.
      return CATALOG[name].mutates ? done : watch.answered(done)
    },
    refuseUnseen: (caller, name, input) => app.refuseUnseen(caller, name, input),
  }
  addTableRoutes(server, routes)
  addLetterExport(server, routes)
  const ownTopics = new Map<string, MayHear>()
  const files = new Map<string, FindFile>()
  const events = addEvents(server, {
    hub: app.hub,
    store,
    findCaller,
    limits,
    ownTopics,
    ownerCodes: app.codes.forOwner,
  })
  addDownloads(server, { store, findCaller, files })
  server.get('/metrics', async (request, reply) => {
    const caller = await neededCaller(findCaller, request)
    if (caller.role === 'owner') throw new RedressError('ROLE_TOO_LOW', 'Metrics need the role viewer.')
    // Metrics contain the data of queues.list.
    if (!inScope(caller.scopes, 'queues.list')) {
      throw new RedressError('ROLE_TOO_LOW', `Metrics need the scope queues.list; ${caller.name} does not have it.`)
    }
    return reply.type(app.metrics.contentType).send(await watch.answered(app.metrics.text()))
  })
  addDashboard(server, { findCaller, cookie, homeOf })
  const appPaths: AppPaths = {}
  let document: object | null = null
  server.get('/openapi.json', async (request, reply) => {
    await neededCaller(findCaller, request)
    // Made when it is asked for, because the routes of apps come later.
    document ??= openApi(manifest().version, '/', cookie.name, appPaths)
    return reply.header('cache-control', 'no-cache').send(document)
  })
  for (const mount of options.mounts ?? []) {
    const plugin: FastifyPluginAsync = async (scope) => {
      collectRoutes(scope, appPaths)
      await mount(scope, {
        app,
        findCaller,
        isHttps,
        sendToSignIn: (request, reply) => sendToSignIn(request, reply, cookie),
        letIn: (find) => void guests.push(asOwner(find)),
        offerFile: (type, find) => void files.set(type, find),
        letHear: (thing, may) => void ownTopics.set(thing, may),
        welcomeOwners(path) {
          ownersPage = path
        },
      })
    }
    await server.register(plugin)
  }

  const url = await listen(server, host, port)
  watch.start()
  return {
    url,
    publicUrl: publicUrl ?? url,
    ready: watch.firstUp,
    async stop({ graceMs = STOP_GRACE_MS } = {}) {
      isStopping = true
      watch.stop()
      events.close()
      const late = setTimeout(() => server.server.closeAllConnections(), graceMs)
      const idle = setInterval(() => {
        server.server.closeIdleConnections()
        unused.close()
      }, CLOSE_IDLE_MS)
      await server.close()
      clearTimeout(late)
      clearInterval(idle)
    },
  }
}

/**
 * Connections on which nothing was sent yet, such as those that a browser opens ahead of its requests. Node does not
 * count them as idle, so a server that stops would wait for them until its grace is over.
 */
function unusedConnections(server: Server): { close(): void } {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  server.on('request', ({ socket }) => sockets.delete(socket))
  return {
    close() {
      for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy()
    },
  }
}

function readBodies(server: FastifyInstance): void {
  const json = server.getDefaultJsonParser('error', 'error')
  server.removeContentTypeParser('application/json')
  server.addContentTypeParser('application/json', { parseAs: 'string' }, (request, body: string, done) => {
    // Clients declare a type for every body they could send. A route that needs a body reports what is missing.
    if (body.trim() === '') done(null, undefined)
    else void json(request, body, done)
  })
  // Pages without script send forms. Only the sign-in and the pages of apps accept them.
  server.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string' },
    (_request, body: string, done) => done(null, Object.fromEntries(new URLSearchParams(body))),
  )
}

async function listen(server: FastifyInstance, host: string, port: number): Promise<string> {
  try {
    await server.listen({ host, port })
  } catch (error) {
    const { code } = error as { code?: string }
    const why = code === 'EADDRINUSE' ? 'another program has that port' : (code ?? 'it was refused')
    throw new RedressError('OPTION_INVALID', `The server cannot listen on ${host}, port ${port}: ${why}.`, {
      cause: error,
      action: 'Choose another with --port, or --port 0 for any that is free.',
    })
  }
  const { address, family, port: taken } = server.server.address() as AddressInfo
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${taken}`
}

function checkedUrl(text: string): string {
  const url = URL.parse(text)
  if (url !== null && (url.protocol === 'https:' || url.protocol === 'http:') && url.pathname === '/') return url.origin
  throw new RedressError(
    'OPTION_INVALID',
    `${JSON.stringify(text)} is not an address such as https://jobs.example.org.`,
  )
}

/** With tracing on, a request continues the trace of its caller (W3C traceparent). */
function receiveTraces(server: FastifyInstance): void {
  server.addHook('onRequest', (request, _reply, done) => {
    const { traceparent } = request.headers
    withinTrace(typeof traceparent === 'string' ? traceparent : undefined, done)
  })
}
