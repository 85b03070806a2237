import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { secretIn } from '@redress/shared/secret'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Caller } from 'redress/http'
import type { Settings } from './settings.ts'

/**
 * Identifies visitors by a signed cookie with a random name. The visitor becomes an owner who can access only their
 * own conversions.
 */
export interface Sessions {
  find(request: FastifyRequest): Caller | null
  /** Gives a stranger a name. */
  begin(reply: FastifyReply): Caller
  /** Whether the visitor is known only by our cookie. */
  isVisitor(caller: Caller): boolean
  /** A keyed hash of a text: the text cannot be found from it without the key. */
  nameOf(text: string): string
}

/** Of what owners may do, what concerns a conversion. They submit by uploading alone. */
const SCOPES = [
  'jobs.list',
  'jobs.count',
  'jobs.show',
  'jobs.events',
  'jobs.failures',
  'jobs.explain',
  'jobs.retry',
  'jobs.cancel',
]

const KEPT_SECONDS = 30 * 86_400
const SESSION_KEY = {
  what: 'the key that signs sessions',
  knob: 'SESSION_SECRET',
  loss: 'With another key, visitors lose access to their files.',
}
const NAME = /^anon-[A-Za-z0-9_-]{22}$/

export function openSessions({ home, sessionSecret }: Settings, isHttps: boolean): Sessions {
  // Over https a cookie can belong to this one host and to no other; browsers hold to what its name says.
  const cookieName = isHttps ? '__Host-pdf-xml' : 'pdf-xml'
  // Now, not with the first visitor: a key that cannot be read should stop who starts the server, not who visits it.
  const secret = sessionSecret ?? secretIn(home, 'session.key', SESSION_KEY)
  const sign = (name: string): string => createHmac('sha256', secret).update(name).digest('base64url')
  const isSigned = (name: string, signature: string): boolean => {
    const [right, given] = [Buffer.from(sign(name)), Buffer.from(signature)]
    return right.length === given.length && timingSafeEqual(right, given)
  }

  return {
    isVisitor: ({ name, account }) => account === name && NAME.test(name),
    nameOf: (text) => sign(`address ${text}`).slice(0, 22),
    find(request) {
      const [name = '', signature = ''] = (request.cookies[cookieName] ?? '').split('.')
      return NAME.test(name) && isSigned(name, signature) ? ownerNamed(name) : null
    },
    begin(reply) {
      const name = `anon-${randomBytes(16).toString('base64url')}`
      void reply.setCookie(cookieName, `${name}.${sign(name)}`, {
        path: '/',
        httpOnly: true,
        sameSite: 'lax',
        secure: isHttps,
        maxAge: KEPT_SECONDS,
      })
      return ownerNamed(name)
    },
  }
}

const ownerNamed = (name: string): Caller => ({ name, role: 'owner', account: name, scopes: SCOPES, isPerson: true })

/** The owner of a conversion: an account, a token without an account, or a visitor's cookie. */
export const ownerOf = ({ account, name }: Caller): string => account ?? name
