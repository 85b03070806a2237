import { isIP } from 'node:net'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { RedressError } from '../../core/errors.ts'

/**
 * Protects against cross-site requests. A page of another site can send requests here, but it cannot
 * choose their Host, Origin and Sec-Fetch headers, so these show where a request comes from.
 */
export interface GuardOptions {
  /** 'https://jobs.example.org': under which people reach this server, where that is not its own address. */
  publicUrl: string | null
  /** Further names under which it may be called. */
  allowedHosts: readonly string[]
}

const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

const isSafe = ({ method }: Pick<FastifyRequest, 'method'>): boolean => SAFE_METHODS.has(method)

export function guard(server: FastifyInstance, { publicUrl, allowedHosts }: GuardOptions): void {
  const names = new Set(['localhost', ...allowedHosts.map(hostnameOf)])
  if (publicUrl !== null) names.add(new URL(publicUrl).hostname)

  server.addHook('onRequest', async (request, reply) => {
    void reply.headers(SAFE_HEADERS)
    const { host } = request.headers
    // Behind a trusted proxy, use the host name that the client asked for: apps make links from it.
    const called = request.host
    if (host === undefined || !isKnownHost(host, names) || !isKnownHost(called, names)) {
      throw new RedressError('REQUEST_REFUSED', 'The host name of this request is not allowed.', {
        action: 'Use the address of the server, or start it with --public-url or --allowed-host.',
      })
    }
    // Nothing is called so, and not every store can even look for it.
    if (/%00/.test(request.raw.url ?? '')) {
      throw new RedressError('REQUEST_INVALID', 'The address contains a NUL character.')
    }
    if (isSafe(request)) return
    const { origin } = request.headers
    const site = request.headers['sec-fetch-site']
    if (origin !== undefined && !isOwnOrigin(origin, host, publicUrl)) throw fromElsewhere()
    if (site !== undefined && site !== 'same-origin' && site !== 'none') throw fromElsewhere()
    // Neither header: every browser sends at least one with a request that changes something. So this client is a
    // program, perhaps with a cookie jar.
  })
}

/** DNS rebinding needs a host name of the attacker, so requests by IP address are safe. */
function isKnownHost(host: string, names: ReadonlySet<string>): boolean {
  const hostname = hostnameOf(host)
  return names.has(hostname) || isIP(hostname.replace(/^\[|\]$/g, '')) !== 0
}

const hostnameOf = (host: string): string => host.toLowerCase().replace(/:\d+$/, '')

function isOwnOrigin(origin: string, host: string, publicUrl: string | null): boolean {
  if (publicUrl !== null && origin === new URL(publicUrl).origin) return true
  return origin === `http://${host}` || origin === `https://${host}`
}

const fromElsewhere = (): RedressError =>
  new RedressError('REQUEST_REFUSED', 'This request comes from a page of another site.')

/** Security headers of every answer. */
export const SAFE_HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), microphone=(), geolocation=()',
} as const
