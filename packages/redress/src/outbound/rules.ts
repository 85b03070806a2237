import { RedressError } from '../core/errors.ts'
import { type Address, isIn, parseRange, type Range } from './addresses.ts'
import { embeddedIn, whyNotGlobal } from './global.ts'

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
    for (const port of ports) if (!isPort(port)) throw invalid(`ports has ${JSON.stringify(port)}, which is no port`)
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
    `${option} has ${JSON.stringify(text)}, which is no address, range or name: ` +
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
