import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { linkSync, mkdirSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { RedressError } from 'redress'
import type { Caller } from 'redress/http'
import type { Settings } from './settings.ts'

/**
 * Who has not signed in is known by a cookie: a name that nobody else has, signed by us. It makes an owner of them, with
 * their own conversions and nothing else.
 */
export interface Sessions {
  find(request: FastifyRequest): Caller | null
  /** Gives a stranger a name. */
  begin(reply: FastifyReply): Caller
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
const NAME = /^anon-[A-Za-z0-9_-]{22}$/

export function openSessions({ home, sessionSecret }: Settings, isHttps: boolean): Sessions {
  // Over https a cookie can belong to this one host and to no other; browsers hold to what its name says.
  const cookieName = isHttps ? '__Host-pdf-xml' : 'pdf-xml'
  // Now, not with the first visitor: a key that cannot be read should stop who starts the server, not who visits it.
  const secret = sessionSecret ?? secretIn(home)
  const sign = (name: string): string => createHmac('sha256', secret).update(name).digest('base64url')
  const isSigned = (name: string, signature: string): boolean => {
    const [right, given] = [Buffer.from(sign(name)), Buffer.from(signature)]
    return right.length === given.length && timingSafeEqual(right, given)
  }

  return {
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

/** Made once and kept beside the files. Processes on other machines need the same: SESSION_SECRET. */
function secretIn(home: string): string {
  const path = join(home, 'session.key')
  try {
    const secret = keptIn(home, path)
    if (secret.length >= 32) return secret
  } catch (cause) {
    throw unusable(path, `cannot be read (${(cause as NodeJS.ErrnoException).code ?? 'for an unknown reason'})`, cause)
  }
  throw unusable(path, 'is too short')
}

function unusable(path: string, why: string, cause?: unknown): RedressError {
  const action =
    'Let the server read it, remove it, or set SESSION_SECRET. Without the old one, visitors are strangers.'
  return new RedressError('OPTION_INVALID', `${path}, the key that signs sessions, ${why}.`, { action, cause })
}

function keptIn(home: string, path: string): string {
  mkdirSync(home, { recursive: true })
  const own = `${path}.${randomBytes(8).toString('hex')}`
  writeFileSync(own, randomBytes(32).toString('hex'), { mode: 0o600 })
  try {
    // Of several processes that begin at once, one names the key; and nobody reads half of it.
    linkSync(own, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    unlinkSync(own)
  }
  return readFileSync(path, 'utf8').trim()
}
