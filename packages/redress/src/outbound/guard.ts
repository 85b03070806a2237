import { lookup as systemLookup } from 'node:dns/promises'
import { connect, type Socket } from 'node:net'
import { optionNames, refuseUnknownOptions } from '../core/text/options.ts'
import { parseAddress } from './addresses.ts'
import { codeOf, NameNotResolved, OutboundRefused } from './errors.ts'
import { Rules, type RuleTexts, withoutDot } from './rules.ts'
/** Which addresses and ports a guard allows. */
export interface OutboundOptions extends RuleTexts {
  /** May be reached though it is not on the internet: '10.0.0.0/8', '127.0.0.1:8080', 'intranet.example:8443'. */
  allow?: readonly string[]
  /** May not be reached though it is on the internet, in the same form; stronger than `allow`. */
  deny?: readonly string[]
  /** Ports that may be asked for; 80 and 443 when left out. An entry of `allow` with a port opens that port there. */
  ports?: readonly number[]
  /** All addresses of a name; the system's own resolver when left out. */
  lookup?: (host: string) => Promise<readonly ResolvedAddress[]>
  /** Makes the connection; TCP to that address when left out. */
  connect?: (target: { address: string; port: number }, signal: AbortSignal) => Promise<Socket>
}

const OPTIONS = optionNames<OutboundOptions>({
  allow: true,
  deny: true,
  ports: true,
  lookup: true,
  connect: true,
})

/** One address that a host name has. */
export interface ResolvedAddress {
  address: string
  family: 4 | 6
}

/** Checked, and to be connected to as it is: no name is left in it that could be looked up again. */
export interface OutboundTarget extends ResolvedAddress {
  port: number
  /** Of the same answer, and checked with it: for when the first one does not take the connection. */
  others: readonly ResolvedAddress[]
}

/** Decides which addresses a request may reach. */
export interface OutboundGuard {
  /** The URL by itself: http(s), no name and password, an open port, a literal address that may be reached. */
  check(url: string | URL): URL
  /** Looks the name up once, and refuses it when any of its addresses may not be reached. */
  resolve(url: URL): Promise<OutboundTarget>
  connect(target: { address: string; port: number }, signal: AbortSignal): Promise<Socket>
}

const URL_CHARS_MAX = 8_192
const NAME_CHARS_MAX = 253
const LABEL_CHARS_MAX = 63

/** Makes a guard, for requests that you make with another client. */
export function outboundGuard(options: OutboundOptions = {}): OutboundGuard {
  refuseUnknownOptions('outboundGuard()', options, OPTIONS)
  const { lookup = allAddresses, connect = dial } = options
  const rules = new Rules(options)

  function check(given: string | URL): URL {
    const url = parse(given)
    const { host, port, literal } = placeOf(url)
    if (literal !== null) judge(host, literal, port)
    else if (!rules.mayHavePort(host, port)) throw closedPort(host, port)
    return url
  }

  function judge(host: string, text: string, port: number): void {
    const address = parseAddress(text)
    if (address === null) throw closed(host, text, 'not an address that can be judged')
    const why = rules.whyClosed({ host, address, port })
    if (why !== null) throw closed(host, text, why)
    if (!rules.isOpenPort({ host, address, port })) throw closedPort(host, port)
  }

  return {
    check,
    async resolve(given) {
      const { host, port, literal } = placeOf(check(given))
      const answers = literal === null ? await answersFor(host, lookup) : [literal]
      for (const answer of answers) judge(host, answer, port)
      const [first, ...others] = answers.map((address) => ({ address, family: familyOf(address) }))
      return { ...(first as ResolvedAddress), port, others }
    },
    connect,
  }
}

function parse(given: string | URL): URL {
  const text = typeof given === 'string' ? given : given.href
  if (text.length > URL_CHARS_MAX) throw refused('URL_INVALID', `The URL has more than ${URL_CHARS_MAX} characters.`)
  const url = URL.parse(text)
  if (url === null) throw refused('URL_INVALID', 'This is no URL: write it as http://host/path.')
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw refused('SCHEME_NOT_ALLOWED', 'Only http and https URLs are fetched.')
  }
  if (url.username !== '' || url.password !== '') {
    throw refused('USERINFO_NOT_ALLOWED', 'The URL must not have a name or password in it.')
  }
  return url
}

interface Asked {
  /** As rules name it: no brackets, no dot at the end. */
  host: string
  port: number
  /** The address, where the URL has one and no name. */
  literal: string | null
}

/** Only ever of what the parser made of the URL: '0x7f.1', '127.1' and full-width digits are 127.0.0.1 by now. */
function placeOf(url: URL): Asked {
  const host = withoutDot(url.hostname.replace(/^\[(.*)\]$/, '$1'))
  const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port)
  const literal = parseAddress(host) === null ? null : host
  if (literal === null && !isName(host)) throw refused('URL_INVALID', 'The URL has no host that could have an address.')
  return { host, port, literal }
}

function isName(host: string): boolean {
  const labels = host.split('.')
  return host.length <= NAME_CHARS_MAX && labels.every((label) => label !== '' && label.length <= LABEL_CHARS_MAX)
}

async function answersFor(host: string, lookup: NonNullable<OutboundOptions['lookup']>): Promise<string[]> {
  let answers: readonly ResolvedAddress[]
  try {
    answers = await lookup(host)
  } catch (error) {
    throw new NameNotResolved(host, codeOf(error) ?? 'the look-up failed', error)
  }
  if (answers.length === 0) throw new NameNotResolved(host, 'it has no address')
  return [...new Set(answers.map(({ address }) => address))]
}

async function allAddresses(host: string): Promise<readonly ResolvedAddress[]> {
  const answers = await systemLookup(host, { all: true, order: 'verbatim' })
  return answers.map(({ address }) => ({ address, family: familyOf(address) }))
}

const familyOf = (address: string): 4 | 6 => (address.includes(':') ? 6 : 4)

function refused(code: OutboundRefused['code'], message: string): OutboundRefused {
  return new OutboundRefused(code, message)
}

function closed(host: string, address: string, why: string): OutboundRefused {
  const message =
    host === address
      ? `${host} may not be reached: it is ${why}.`
      : `${host} may not be reached: not all of its addresses are open to requests.`
  return new OutboundRefused('ADDRESS_NOT_ALLOWED', message, { host, address })
}

function closedPort(host: string, port: number): OutboundRefused {
  return new OutboundRefused('PORT_NOT_ALLOWED', `Port ${port} of ${host} may not be reached.`, { host })
}

/** TCP to an address. The address is a literal, so nothing is looked up here. */
function dial({ address, port }: { address: string; port: number }, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: address, port, autoSelectFamily: false, noDelay: true, keepAlive: true })
    const stop = () => socket.destroy(signal.reason as Error)
    signal.addEventListener('abort', stop, { once: true })
    socket.once('connect', () => {
      signal.removeEventListener('abort', stop)
      socket.off('error', reject)
      resolve(socket)
    })
    socket.once('error', reject)
    socket.once('close', () => signal.removeEventListener('abort', stop))
    if (signal.aborted) stop()
  })
}
