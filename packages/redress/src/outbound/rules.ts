import { RedressError } from '../core/errors.ts'
import { type Address, isIn, parseAddress, parseRange, type Range } from './addresses.ts'

/** An address, a range, or a name, each with or without a port. */
interface Rule {
  range: Range | null
  name: string | null
  port: number | null
}

export interface RuleTexts {
  allow?: readonly string[]
  deny?: readonly string[]
  ports?: readonly number[]
}

/** Where a connection would go: the name in the URL (or its literal address), the address, the port. */
export interface Place {
  host: string
  address: Address
  port: number
}

const USUAL_PORTS = [80, 443]

/** What an operator opened and closed, over what is on the internet. */
export class Rules {
  readonly #allow: readonly Rule[]
  readonly #deny: readonly Rule[]
  readonly #ports: ReadonlySet<number>

  constructor({ allow = [], deny = [], ports = USUAL_PORTS }: RuleTexts) {
    this.#allow = allow.map((text) => parseRule(text, 'allow'))
    this.#deny = deny.map((text) => parseRule(text, 'deny'))
    for (const port of ports) if (!isPort(port)) throw invalid(`ports has the invalid port ${JSON.stringify(port)}`)
    this.#ports = new Set(ports)
  }

  /** Of a name that is not resolved yet: false only if no address that it can have would make it right. */
  mayHavePort(host: string, port: number): boolean {
    const opens = ({ name, port: opened }: Rule) => opened === port && (name === null || name === host)
    return this.#ports.has(port) || this.#allow.some(opens)
  }

  isOpenPort(place: Place): boolean {
    return this.#ports.has(place.port) || this.#allow.some((rule) => rule.port === place.port && holds(rule, place))
  }

  /** null = may be reached; else why not, to be put after "is". */
  whyClosed(place: Place): string | null {
    const inner = embeddedIn(place.address)
    const denies = (rule: Rule) => holds(rule, place) || (inner !== null && holds(rule, { ...place, address: inner }))
    if (this.#deny.some(denies)) return 'closed by configuration'
    return this.#allow.some((rule) => holds(rule, place)) ? null : whyNotGlobal(place.address)
  }
}

function holds({ range, name, port }: Rule, place: Place): boolean {
  if (port !== null && port !== place.port) return false
  return range === null ? name === place.host : isIn(range, place.address)
}

function parseRule(text: string, option: string): Rule {
  const { subject, port } = split(String(text).trim())
  const range = parseRange(subject)
  if (range !== null && (port === null || isPort(port))) return { range, name: null, port }
  const name = nameOf(subject)
  if (name !== null && (port === null || isPort(port))) return { range: null, name, port }
  throw invalid(
    `${option} has ${JSON.stringify(text)}, which is not an address, a range or a name: ` +
      "write '10.0.0.0/8', '127.0.0.1:8080', '[fd00::]/8', '[::1]:8080' or 'intranet.example:8443'",
  )
}

/** IPv6 stands in brackets where a port follows; bare otherwise, or with them. */
function split(text: string): { subject: string; port: number | null } {
  const bracketed = /^\[([^\]]*)\](\/\d+)?(?::(\d+))?$/.exec(text)
  if (bracketed !== null) return { subject: `${bracketed[1]}${bracketed[2] ?? ''}`, port: portOf(bracketed[3]) }
  const plain = /^([^:]*)(?::(\d+))?$/.exec(text)
  return plain === null ? { subject: text, port: null } : { subject: plain[1] ?? '', port: portOf(plain[2]) }
}

const portOf = (digits: string | undefined): number | null => (digits === undefined ? null : Number(digits))

/** As the parser of URLs writes it; null if it is no name, or one that the parser takes for a number. */
function nameOf(text: string): string | null {
  if (!/^[^/?#@:\\\s%*]+$/.test(text)) return null
  const host = URL.parse(`http://${text}/`)?.hostname
  return host === undefined || parseRange(host) !== null ? null : withoutDot(host)
}

/** 'example.org.' and 'example.org' are one name. */
export const withoutDot = (host: string): string => (host.endsWith('.') ? host.slice(0, -1) : host)

const isPort = (port: unknown): port is number => Number.isInteger(port) && Number(port) >= 1 && Number(port) <= 65_535

const invalid = (message: string) => new RedressError('OPTION_INVALID', `outbound: ${message}.`)

/**
 * What is not on the internet, by the registries of special-purpose addresses that IANA keeps for IPv4 and IPv6 (as
 * they stood in October 2025), with multicast. Blocks and parts of blocks that a registry calls globally reachable
 * (192.0.0.9, 192.175.48.0/24, 2001:1::1 and others) stay closed all the same: they are anycast services of routers
 * and name servers, often run inside a network, and host no pages.
 */
const CLOSED_V4 = table({
  '0.0.0.0/8': 'of this network',
  '10.0.0.0/8': 'private',
  '100.64.0.0/10': 'of a carrier',
  '127.0.0.0/8': 'of this machine',
  '169.254.0.0/16': 'link-local',
  '172.16.0.0/12': 'private',
  '192.0.0.0/24': 'for protocols',
  '192.0.2.0/24': 'for documentation',
  '192.31.196.0/24': 'a service of name servers',
  '192.52.193.0/24': 'a service of routers',
  '192.88.99.0/24': 'for relays of 6to4',
  '192.168.0.0/16': 'private',
  '192.175.48.0/24': 'a service of name servers',
  '198.18.0.0/15': 'for benchmarks',
  '198.51.100.0/24': 'for documentation',
  '203.0.113.0/24': 'for documentation',
  '224.0.0.0/4': 'multicast',
  '240.0.0.0/4': 'reserved',
  // A public number that only machines of this cloud can reach: its agent tells them secrets there.
  '168.63.129.16/32': 'of the host of a cloud machine',
})

/** Addresses are given out from this block alone. All others are special or not assigned. */
const UNICAST_V6 = range('2000::/3')

const CLOSED_V6 = table({
  // With Teredo, ORCHID and benchmarks.
  '2001::/23': 'for protocols',
  '2001:db8::/32': 'for documentation',
  // Whatever the IPv4 address in it: the public relays are gone, and a remaining one is private.
  '2002::/16': '6to4',
  '2620:4f:8000::/48': 'a service of name servers',
  '3fff::/20': 'for documentation',
})

/** Only to say it better than "not on the internet". */
const OUTSIDE_V6 = table({
  '::/128': 'unspecified',
  '::1/128': 'of this machine',
  '::/96': 'an IPv4 address in another form',
  '::ffff:0:0/96': 'an IPv4 address in another form',
  '::ffff:0:0:0/96': 'an IPv4 address in another form',
  '64:ff9b:1::/48': 'for translation inside a network',
  '100::/64': 'for discarding',
  '100:0:0:1::/64': 'a dummy',
  '5f00::/16': 'for segment routing',
  'fc00::/7': 'private',
  'fe80::/10': 'link-local',
  'fec0::/10': 'site-local',
  'ff00::/8': 'multicast',
})

/**
 * Where a network has only IPv6, every name that has only IPv4 resolves to this block. So it cannot be closed: the
 * address inside is judged instead, as the translator will go there.
 */
const NAT64 = range('64:ff9b::/96')

/** null = it is on the internet; else what it is instead, to be put after "is". */
function whyNotGlobal(address: Address): string | null {
  if (address.family === 4) return find(CLOSED_V4, address)
  const embedded = embeddedIn(address)
  const inner = embedded === null ? null : whyNotGlobal(embedded)
  if (inner !== null) return `an IPv4 address in another form, ${inner}`
  if (isIn(NAT64, address)) return null
  if (!isIn(UNICAST_V6, address)) return find(OUTSIDE_V6, address) ?? 'not given out'
  return find(CLOSED_V6, address)
}

/** The IPv4 address that a translator (NAT64) or a tunnel (ISATAP, in any prefix) would go to. */
function embeddedIn(address: Address): Address | null {
  if (address.family === 4) return null
  const marker = (address.bits >> 32n) & 0xffff_ffffn
  const isIsatap = (marker & ~0x0200_0000n) === 0x0000_5efen
  return isIsatap || isIn(NAT64, address) ? { family: 4, bits: address.bits & 0xffff_ffffn } : null
}

/** Of a text; whatever is no plain address is not on the internet either. */
export function isGlobalAddress(text: string): boolean {
  const address = parseAddress(text)
  return address !== null && whyNotGlobal(address) === null
}

type Closed = readonly { range: Range; why: string }[]

function table(entries: Readonly<Record<string, string>>): Closed {
  return Object.entries(entries).map(([text, why]) => ({ range: range(text), why }))
}

function range(text: string): Range {
  const parsed = parseRange(text)
  if (parsed === null) throw new TypeError(`${text} is not a range`)
  return parsed
}

const find = (closed: Closed, address: Address): string | null =>
  closed.find((entry) => isIn(entry.range, address))?.why ?? null
