import type { FastifyRequest } from 'fastify'
import { RedressError } from '../../core/errors.ts'
import { parseAddress, parseRange } from '../../outbound/addresses.ts'

/**
 * Which peers may name the address of a caller. `true` trusts one proxy and a number that many, counted from this server; a text
 * or a list trusts proxies by their addresses: '10.0.0.0/8,127.0.0.1'. When it is left out, no proxy is trusted.
 */
export type TrustedProxies = boolean | number | string | readonly string[]

type TrustProxyFunction = (address: string, hop: number) => boolean

const HOPS_MAX = 20

/** For the HTTP framework, which then reads `X-Forwarded-For` from the right end, where the nearest proxy writes. */
export function trustedProxies(given: TrustedProxies | undefined): false | string[] | TrustProxyFunction {
  if (given === undefined || given === false) return false
  // Not `true`: the framework would trust every entry, including those that the client wrote.
  if (given === true) return nearest(1)
  if (typeof given === 'number' || (typeof given === 'string' && /^\s*-?\d+\s*$/.test(given))) {
    return nearest(checkedHops(Number(given)))
  }
  const ranges = (typeof given === 'string' ? given.split(',') : [...given]).map((one) => one.trim())
  for (const range of ranges) {
    if (parseRange(range) !== null && !range.endsWith('/0')) continue
    throw invalid(`${JSON.stringify(range)} is neither a number of proxies nor an address or a range`)
  }
  if (ranges.length === 0) throw invalid('the list is empty')
  return ranges
}

/** Hop 0 is the peer of the connection itself. */
const nearest =
  (hops: number): TrustProxyFunction =>
  (_address, hop) =>
    hop < hops

function checkedHops(hops: number): number {
  if (Number.isInteger(hops) && hops >= 1 && hops <= HOPS_MAX) return hops
  throw invalid(`the number of proxies must be from 1 to ${HOPS_MAX}; got ${hops}`)
}

const invalid = (problem: string): RedressError =>
  new RedressError('OPTION_INVALID', `Trusted proxies cannot be read: ${problem}.`, {
    action: 'Give how many proxies stand before the server (1), or their addresses: 10.0.0.0/8,127.0.0.1.',
  })

const GROUP_BITS = 16n
const NETWORK_BITS = 64n
/** ::ffff:0:0/96, an IPv4 address mapped into IPv6. */
const MAPPED = 0xffffn

/**
 * The key of limits per address: the caller's IPv4 address, or the /64 network of its IPv6 address, because one customer
 * usually has all addresses of a /64. Behind proxies it is the caller's own only if the server trusts them (`trustProxy`).
 */
export function clientAddress(request: Pick<FastifyRequest, 'ip'>): string {
  const { ip } = request
  // Some proxies add the port.
  const address = parseAddress(ip) ?? parseAddress(ip.replace(/^\[(.*)\](?::\d+)?$|^([\d.]+):\d+$/, '$1$2'))
  if (address === null) return ip
  if (address.family === 4) return v4(address.bits)
  if (address.bits >> 32n === MAPPED) return v4(address.bits & 0xffffffffn)
  const network = address.bits >> NETWORK_BITS
  const groups = [3n, 2n, 1n, 0n].map((n) => ((network >> (n * GROUP_BITS)) & 0xffffn).toString(16))
  return `${groups.join(':')}::/64`
}

const v4 = (bits: bigint): string => [24n, 16n, 8n, 0n].map((shift) => (bits >> shift) & 0xffn).join('.')
