import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { RedressError } from '../../core/errors.ts'
import { endSession, openSession } from '../../operations/accounts/authenticate.ts'
import type { Caller } from '../../operations/caller.ts'
import type { Store } from '../../store/contract/store.ts'
import { BASE_CSS, signInPage } from '../pages.ts'
import { type FindCaller, neededCaller, tooMany, type WrongSecrets } from './callers.ts'
import { clientAddress } from './client-address.ts'

export interface SignInOptions {
  store: () => Promise<Store>
  wrong: WrongSecrets
  findCaller: FindCaller
  cookie: CookieShape
  /** The first page after sign-in, if no page was asked for. */
  homeOf(caller: Caller): string
}

/** Over https the `__Host-` prefix binds the cookie to this host. */
export interface CookieShape {
  name: string
  isSecure: boolean
}

export const cookieShape = (isHttps: boolean): CookieShape =>
  isHttps ? { name: '__Host-redress', isSecure: true } : { name: 'redress', isSecure: false }

const SESSION_MS = 12 * 3_600_000

const BACK = 'redress-back'
const BACK_SECONDS = 15 * 60
const BACK_CHARS_MAX = 1_000

/** Redirects to the sign-in, which returns to this page. */
export function sendToSignIn(request: FastifyRequest, reply: FastifyReply, { isSecure }: CookieShape): FastifyReply {
  if (request.method === 'GET') {
    const attributes = { path: '/sign-in', httpOnly: true, sameSite: 'lax', secure: isSecure } as const
    void reply.setCookie(BACK, request.url, { ...attributes, maxAge: BACK_SECONDS })
  }
  return reply.redirect('/sign-in', 303)
}

/** Only a path of this server: an address that begins with two slashes is another's. */
function wayBack(request: FastifyRequest, home: string): string {
  const path = request.cookies[BACK] ?? ''
  return /^\/(?![/\\])[\x21-\x7e]*$/.test(path) && path.length <= BACK_CHARS_MAX ? path : home
}

export function addSignIn(server: FastifyInstance, options: SignInOptions): void {
  const { store, wrong, findCaller, cookie, homeOf } = options
  const attributes = { path: '/', httpOnly: true, sameSite: 'lax', secure: cookie.isSecure } as const

  server.get('/assets/base.css', async (_request, reply) =>
    reply.type('text/css').header('cache-control', 'public, max-age=300').send(BASE_CSS),
  )

  /** Only shows a button: what looks at links before people do must not use them up. */
  server.get('/sign-in', async (request, reply) => {
    const { code } = request.query as { code?: unknown }
    return reply
      .type('text/html')
      .header('cache-control', 'no-store')
      .send(signInPage(typeof code === 'string' ? code : null, null))
  })

  server.post('/sign-in', async (request, reply) => {
    const { code } = (request.body ?? {}) as { code?: unknown }
    const isForm = (request.headers['content-type'] ?? '').startsWith('application/x-www-form-urlencoded')
    const session = typeof code === 'string' && code !== '' ? await openSession(await store(), code, SESSION_MS) : null
    if (session === null) {
      // After the link was looked at: a good one is let in whatever others from its address did.
      const address = clientAddress(request)
      const waitMs = wrong.waitMs(address)
      if (waitMs === 0) wrong.count(address)
      const error =
        waitMs > 0
          ? tooMany(waitMs)
          : new RedressError('SIGN_IN_REQUIRED', 'This link is invalid, expired or already used.', {
              action: 'Create a new one: `redress sign-in`.',
            })
      if (!isForm) throw error
      if (waitMs > 0) void reply.header('retry-after', String(Math.ceil(waitMs / 1000)))
      return reply
        .code(error.httpStatus)
        .type('text/html')
        .header('cache-control', 'no-store')
        .send(signInPage(null, error.message))
    }
    void reply.setCookie(cookie.name, session.secret, { ...attributes, maxAge: SESSION_MS / 1000 })
    if (request.cookies[BACK] !== undefined) void reply.clearCookie(BACK, { path: '/sign-in' })
    const { caller } = session
    return isForm ? reply.redirect(wayBack(request, homeOf(caller)), 303) : { name: caller.name, role: caller.role }
  })

  server.post('/sign-out', async (request, reply) => {
    const secret = request.cookies[cookie.name]
    if (secret !== undefined) await endSession(await store(), secret)
    void reply.clearCookie(cookie.name, attributes)
    return reply.redirect('/sign-in', 303)
  })

  server.get('/api/me', async (request, reply) => {
    const { name, role, account, scopes } = await neededCaller(findCaller, request)
    return reply.header('cache-control', 'no-store').send({ name, role, account, scopes })
  })
}
