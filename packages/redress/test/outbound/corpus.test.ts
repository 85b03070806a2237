import { connect as dialHere } from 'node:net'
import { request } from 'undici'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type ForwardProxy, forwardProxy } from '../../../../test/support/servers/forward-proxy.ts'
import { ConnectFailed, isGlobalAddress, type OutboundOptions, OutboundRefused } from '../../src/outbound/index.ts'
import {
  CLOSED_PORTS,
  DISGUISES,
  INSIDE_V4,
  INSIDE_V6,
  OTHER_SCHEMES,
  SPELLINGS,
  SPELLINGS_V6,
  WRAPPINGS,
} from './payloads.ts'
import { client, type Origin, startOrigin, thrownBy } from './world.ts'

const PUBLIC = '93.184.215.14'
const PUBLIC_V6 = '2606:2800:21f:cb07:6820:80da:af6b:8b2c'
const INSIDE = [...INSIDE_V4, ...INSIDE_V6]

/** What must never be reached, on ports that are open otherwise: nothing but the address keeps a request away. */
let canaries: Origin[]
/** Lies on this machine, too, and is opened by the operator: it sends those who ask wherever they say. */
let redirector: Origin
let proxy: ForwardProxy
let ports: number[]

/** Every payload of this file, so that none is counted twice. */
const tried = new Set<string>()
const dialled: string[] = []
let answers: Record<string, (times: number) => readonly string[]> = {}
const asked = new Map<string, number>()

beforeAll(async () => {
  const hosts = ['127.0.0.1', '127.0.0.1', '::1', '127.1.2.3', '127.255.255.254']
  canaries = await Promise.all(hosts.map((host) => startOrigin((response) => response.end('secret'), { host })))
  redirector = await startOrigin((response, { url = '' }) => {
    const [, left = '1', target = ''] = /^\/(\d)\/(.*)$/.exec(url) ?? []
    const next = left === '1' ? Buffer.from(target, 'base64url').toString() : `/${Number(left) - 1}/${target}`
    response.writeHead(302, { location: next }).end()
  })
  proxy = await forwardProxy()
  ports = [80, 443, ...canaries.map(({ port }) => port)]
})
afterAll(() => Promise.all([...canaries, redirector, proxy].map((server) => server.close())))

const rules = (): OutboundOptions => ({
  allow: [`127.0.0.1:${redirector.port}`],
  ports,
  lookup: async (host) => {
    asked.set(host, (asked.get(host) ?? 0) + 1)
    const known = answers[host]
    if (known === undefined) throw Object.assign(new Error('unknown'), { code: 'ENOTFOUND' })
    return known(asked.get(host) ?? 1).map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))
  },
  // Loopback is really connected to, so that a canary would sing. Nothing else is: it is only written down.
  connect: ({ address, port }) => {
    dialled.push(`${address} ${port}`)
    if (!address.startsWith('127.') && address !== '::1') {
      return Promise.reject(Object.assign(new Error('not from here'), { code: 'ENETUNREACH' }))
    }
    return new Promise((resolve, reject) => {
      const socket = dialHere(port, address)
      socket.once('connect', () => resolve(socket)).once('error', reject)
    })
  },
})

/** Tries each payload on its own and expects a refusal; whatever else it was is told with the payload. */
async function expectRefused(payloads: readonly string[], send: (url: string) => Promise<unknown>): Promise<void> {
  const wrong: [payload: string, instead: string][] = []
  for (const payload of payloads) {
    const error = await thrownBy(send(payload))
    if (!(error instanceof OutboundRefused)) wrong.push([payload, String(error)])
  }
  expect(wrong).toEqual([])
  expectNothingReached()
}

function expectNothingReached(): void {
  expect(canaries.flatMap(({ requests }) => requests)).toEqual([])
  expect(canaries.map((canary) => canary.taken())).toEqual(canaries.map(() => 0))
  const opened = `127.0.0.1 ${redirector.port}`
  const forbidden = dialled.filter((place) => place !== opened && !isGlobalAddress(place.split(' ')[0] as string))
  expect(forbidden).toEqual([])
  expect(proxy.targets).toEqual([])
}

function count(payloads: readonly string[]): readonly string[] {
  for (const payload of payloads) {
    if (tried.has(payload)) throw new Error(`this payload is there twice: ${JSON.stringify(payload)}`)
    tried.add(payload)
  }
  return payloads
}

const each = <T>(table: Readonly<Record<string, T>>): T[] => Object.values(table)
/** Those of the canaries in turn, so that a request would find somebody. */
const withPort = (host: string, i: number) => `${host}:${ports[2 + (i % canaries.length)]}`

const spelled = () =>
  INSIDE_V4.flatMap((address) => [...new Set(each(SPELLINGS).map((spell) => spell(address)))]).map(
    (host, i) => `http://${withPort(host, i)}/`,
  )
const disguised = () =>
  INSIDE_V4.flatMap((address) => each(DISGUISES).map((wear) => wear(address))).map(
    (host, i) => `http://${withPort(host, i)}/`,
  )
const sixes = () =>
  INSIDE_V6.flatMap((address) => [...new Set(each(SPELLINGS_V6).map((spell) => spell(address)))]).map(
    (host, i) => `http://${withPort(host, i)}/six`,
  )
const wrapped = () =>
  [
    '127.0.0.1',
    '[::1]',
    '0.0.0.0',
    '169.254.169.254',
    '10.0.0.1',
    '[::ffff:127.0.0.1]',
    '2130706433',
    '0x7f.1',
  ].flatMap((host, i) => each(WRAPPINGS).map((wrap) => wrap(withPort(host, i))))

describe('no request gets inside', () => {
  test('by a spelling of an address; and the spellings are read as what they stand for', async () => {
    for (const address of INSIDE_V4) {
      for (const [name, spell] of Object.entries(SPELLINGS)) {
        expect([name, URL.parse(`http://${spell(address)}/`)?.hostname]).toEqual([name, address])
      }
    }
    await expectRefused(count(spelled()), client(rules()).send)
  })

  test('by an IPv4 address dressed as IPv6', async () => {
    for (const url of disguised()) expect(URL.canParse(url)).toBe(true)
    await expectRefused(count(disguised()), client(rules()).send)
  })

  test('by an IPv6 address', async () => {
    for (const url of sixes()) expect(URL.canParse(url)).toBe(true)
    await expectRefused(count(sixes()), client(rules()).send)
  })

  test('by what stands around the address', async () => {
    await expectRefused(count(wrapped()), client(rules()).send)
  })

  test('by another scheme', async () => {
    await expectRefused(count(OTHER_SCHEMES), client(rules()).send)
  })

  test('by a port that is not for pages', async () => {
    answers = { 'good.example': () => [PUBLIC] }
    const urls = CLOSED_PORTS.flatMap((port) => [`http://good.example:${port}/`, `https://${PUBLIC}:${port}/`])
    await expectRefused(count(urls.filter((url) => !ports.includes(Number(new URL(url).port)))), client(rules()).send)
  })

  test('by a zone of an address, or a host that is none', async () => {
    const hosts = [
      '[fe80::1%25lo]',
      '[::1%25lo]',
      '[::1%lo]',
      '[127.0.0.1]',
      '[::ffff:127.0.0.1.]',
      '[::1]]',
      '[[::1]]',
    ]
    const odd = [
      '127.0.0.1.1',
      '127.0.0.256',
      '0x7f.0x0.0x0.0x100',
      '4294967296',
      '%00127.0.0.1',
      '127.0.0.1%00',
      '..',
      '%',
    ]
    await expectRefused(count([...hosts, ...odd].map((host) => `http://${host}/`)), client(rules()).send)
  })

  test('past the check of the URL: the connection itself refuses', async () => {
    const { agent } = client(rules())
    const parsed = new Set([...spelled(), ...disguised(), ...sixes()].map((url) => new URL(url).href))
    expect(parsed.size).toBeGreaterThan(400)
    await expectRefused([...parsed], (url) => request(url, { dispatcher: agent }))
  })

  test('through a proxy: it is never asked for such an address', async () => {
    answers = Object.fromEntries(INSIDE.map((address, i) => [`p${i}.example`, () => [PUBLIC, address]]))
    const { send, agent } = client(rules(), { proxy })
    await expectRefused(count(INSIDE.map((_, i) => `http://p${i}.example/`)), send)
    const literals = [...INSIDE_V4, ...INSIDE_V6.map((address) => `[${address}]`)]
    const urls = literals.map((host) => `https://${host}/by-proxy`)
    await expectRefused(count(urls), send)
    await expectRefused(urls, (url) => request(url, { dispatcher: agent }))
  })
})

describe('no name leads inside', () => {
  test('that has an address there, alone or among others', async () => {
    answers = Object.fromEntries(
      INSIDE.flatMap((address, i) => [
        [`alone${i}.example`, () => [address]],
        [`last${i}.example`, () => [PUBLIC, PUBLIC_V6, address]],
        [`first${i}.example`, () => [address, PUBLIC]],
      ]),
    )
    const urls = Object.keys(answers).map((name, i) => `http://${withPort(name, i)}/`)
    await expectRefused(count(urls), client(rules()).send)
  })

  test('that means this machine', async () => {
    const own = ['localhost', 'localhost.', 'LocalHost', 'a.localhost', 'localhost.localdomain', 'ip6-localhost']
    answers = Object.fromEntries(own.map((name) => [name.toLowerCase().replace(/\.$/, ''), () => ['127.0.0.1', '::1']]))
    await expectRefused(count(own.map((name, i) => `http://${withPort(name, i)}/`)), client(rules()).send)
  })

  test('that answers otherwise the next time: what was checked is what is connected to', async () => {
    answers = Object.fromEntries(
      INSIDE.flatMap((address, i) => [
        [`turn${i}.example`, (times) => (times % 2 === 1 ? [PUBLIC] : [address])],
        [`later${i}.example`, (times) => (times <= 2 ? [PUBLIC, PUBLIC_V6] : [address])],
      ]),
    )
    const urls = count(Object.keys(answers).map((name, i) => `http://${withPort(name, i)}/`))
    const { send } = client(rules())
    const before = dialled.length
    for (const url of urls) {
      // Nobody is at the public address, so that every request needs a new connection.
      const errors = [await thrownBy(send(url)), await thrownBy(send(url)), await thrownBy(send(url))]
      expect(errors.some((error) => error instanceof ConnectFailed)).toBe(true)
      expect(errors.some((error) => error instanceof OutboundRefused)).toBe(true)
    }
    expect(new Set(dialled.slice(before).map((place) => place.split(' ')[0]))).toEqual(new Set([PUBLIC, PUBLIC_V6]))
    expectNothingReached()
  })
})

describe('no redirect leads inside', () => {
  /** From the one place on this machine that is open, in so many steps. */
  const redirected = (target: string, steps: number) =>
    `http://127.0.0.1:${redirector.port}/${steps}/${Buffer.from(target).toString('base64url')}`

  /** As a header can carry it: whoever sends it writes other letters in percents, and no new lines. */
  const asLocation = (target: string) => target.replace(/[^\p{ASCII}]+/gu, encodeURIComponent)
  const isLocation = (target: string) => /^[\t -~]+$/.test(target)

  test('to an address, in one to five steps', async () => {
    const spells = each(SPELLINGS).filter((spell) => isLocation(asLocation(spell('127.0.0.1'))))
    const inTurn = (table: readonly ((text: string) => string)[]) =>
      INSIDE_V4.map((address, i) => (table[i % table.length] as (text: string) => string)(address))
    const hosts = [...inTurn(spells), ...inTurn(each(DISGUISES)), ...INSIDE_V6.map((address) => `[${address}]`)]
    const urls = hosts.map((host, i) => {
      const target = `${i % 3 === 0 ? '' : 'http:'}//${asLocation(withPort(host, i))}/`
      return redirected(target, 1 + (i % 5))
    })
    const before = redirector.requests.length
    await expectRefused(count(urls), client(rules()).send)
    expect(redirector.requests.length - before).toBe(urls.reduce((sum, _, i) => sum + 1 + (i % 5), 0))
  })

  test('to a name, to another scheme, to another port of the open place, or by what stands around', async () => {
    answers = { 'inner.example': () => ['10.0.0.1'], 'half.example': () => [PUBLIC, '::1'] }
    // Without two slashes it is a path of the place that redirects, and no way to another.
    const { 'no slashes': _none, 'one slash': _one, ...wrappings } = WRAPPINGS
    const targets = [
      ...OTHER_SCHEMES,
      ...each(wrappings).map((wrap) => wrap('127.0.0.1')),
      ...['http://inner.example/', '//half.example/', 'http://inner.example./'],
      ...ports.map((port) => `http://127.0.0.1:${port}/`),
    ].filter(isLocation)
    await expectRefused(count(targets.map((target, i) => redirected(target, 1 + (i % 5)))), client(rules()).send)
  })
})

test('at least 1,000 payloads were tried, no two of them alike', () => {
  expect(tried.size).toBeGreaterThanOrEqual(1_000)
})

describe('what may be reached is reached', () => {
  test('addresses and names on the internet, in whatever spelling: connected to as they are', async () => {
    answers = {
      'good.example': () => [PUBLIC],
      'six.example': () => [PUBLIC_V6],
      'nat64.example': () => ['64:ff9b::5db8:d70e'],
      'xn--bcher-kva.example': () => ['1.1.1.1'],
    }
    const expected: [url: string, place: string][] = [
      ['http://good.example/', `${PUBLIC} 80`],
      ['https://good.example/', `${PUBLIC} 443`],
      ['http://GOOD.example./', `${PUBLIC} 80`],
      ['http://good.example\\@127.0.0.1/', `${PUBLIC} 80`],
      ['http://good.example#@127.0.0.1/', `${PUBLIC} 80`],
      ['http://good.example?@[::1]/', `${PUBLIC} 80`],
      ['http://six.example/', `${PUBLIC_V6} 80`],
      ['http://nat64.example/', '64:ff9b::5db8:d70e 80'],
      ['http://bücher.example/', '1.1.1.1 80'],
      ['http://8.8.8.8/', '8.8.8.8 80'],
      ['http://0x08080808/', '8.8.8.8 80'],
      ['https://[2606:4700:4700::1111]/', '2606:4700:4700::1111 443'],
      [`http://172.15.255.255:${ports[3]}/`, `172.15.255.255 ${ports[3]}`],
      ['http://11.0.0.1/', '11.0.0.1 80'],
      ['http://192.167.1.1/', '192.167.1.1 80'],
      ['http://169.253.169.254/', '169.253.169.254 80'],
    ]
    const { send } = client(rules())
    for (const [url, place] of expected) {
      const before = dialled.length
      // The test's own connector goes no further than writing it down.
      expect([url, (await thrownBy(send(url))).name]).toEqual([url, 'ConnectFailed'])
      expect([url, ...dialled.slice(before)]).toEqual([url, place])
    }
  })

  test('what the operator opened, on this machine, over both families', async () => {
    const [four, , six] = canaries as [Origin, Origin, Origin]
    const { text } = client({ allow: [`127.0.0.1:${four.port}`, `[::1]:${six.port}`] })
    expect(await text(`http://127.0.0.1:${four.port}/`)).toBe('secret')
    expect(await text(`http://[::1]:${six.port}/`)).toBe('secret')
    expect(await text(`http://2130706433:${four.port}/`)).toBe('secret')
    expect([four.requests.length, six.requests.length]).toEqual([2, 1])
  })
})
