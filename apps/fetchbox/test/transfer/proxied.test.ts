import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { TEST_CA, TEST_SERVER } from '../../../../test/support/servers/certificates.ts'
import { type ForwardProxy, forwardProxy } from '../../../../test/support/servers/forward-proxy.ts'
import { answer, OriginServer } from '../../../../test/support/servers/origin-server.ts'
import type { FetchFailure } from '../../src/failures/failure.ts'
import { LIMITS, type Rig, rig } from './rig.ts'

let origin: OriginServer
let proxies: ForwardProxy[]
let box: Rig
let nowMs: number

beforeAll(async () => {
  origin = await OriginServer.start()
})
afterAll(() => origin.stop())

beforeEach(async () => {
  nowMs = 1_000_000
  proxies = await Promise.all([1, 2, 3].map(() => forwardProxy({ login: 'me:hunter2' })))
  const [first, second, third] = proxies.map(({ url }) => url) as [string, string, string]
  box = await rig({
    outbound: { allow: [origin.address] },
    proxies: [[{ pool: 'proxies/eu-primary', urls: [first, second] }], [{ pool: 'proxies/us-spare', urls: [third] }]],
    nowMs: () => nowMs,
  })
})
afterEach(async () => {
  await box.stop()
  await Promise.all(proxies.map((proxy) => proxy.close()))
})

/** As the stage does: each try avoids the proxy of the one before. */
async function tries(url: string, count: number): Promise<FetchFailure[]> {
  const failures: FetchFailure[] = []
  for (let avoidProxy: string | null = null; failures.length < count; ) {
    const failure = await box.failure(url, { avoidProxy })
    avoidProxy = failure.context.proxy
    failures.push(failure)
  }
  return failures
}

const states = () => box.transfer.proxies().map(({ name, state }) => `${name} ${state}`)

test('each try uses another proxy, named in the record, and the proxy gets an address [F4 F8]', async () => {
  const failures = await tries(origin.plan('/broken', answer(503)), 4)
  expect(failures.map(({ context }) => context.proxy)).toEqual([
    'proxies/eu-primary#1',
    'proxies/eu-primary#2',
    'proxies/eu-primary#1',
    'proxies/eu-primary#2',
  ])
  expect(failures.map(({ code, context }) => [code, context.status])).toEqual(Array(4).fill(['DOWNLOAD_HTTP_5XX', 503]))
  expect(proxies.map(({ targets }) => new Set(targets))).toEqual([
    new Set([origin.address]),
    new Set([origin.address]),
    new Set(),
  ])
})

test('an origin that fails takes no proxy out', async () => {
  await tries(origin.plan('/broken', answer(500)), 12)
  await tries(origin.plan('/reset', { send: [], ends: 'reset' }), 12)
  expect(states().filter((state) => !state.endsWith('healthy'))).toEqual([])
})

test('a download names its proxy', async () => {
  const spooled = await box.get(origin.plan('/good', answer(200, 'good')))
  expect(spooled.proxy).toBe('proxies/eu-primary#1')
  await spooled.remove()
})

test('when all proxies fail in turn, the download ends as DOWNLOAD_PROXY_EXHAUSTED with a wait [F3 F8]', async () => {
  const url = origin.plan('/fine', answer(200, 'fine'))
  const get = async (): Promise<string | null> => {
    const spooled = await box.get(url)
    await spooled.remove()
    return spooled.proxy
  }
  await proxies[0]?.close()
  const first = await box.failure(url)
  expect(first).toMatchObject({
    code: 'DOWNLOAD_PROXY_FAILED',
    context: { proxy: 'proxies/eu-primary#1', status: null, proxyCode: 'PROXY_UNREACHABLE' },
  })
  expect(await get()).toBe('proxies/eu-primary#2')
  await proxies[1]?.close()
  expect((await tries(url, 3)).map(({ context }) => context.proxy)).toEqual([
    'proxies/eu-primary#1',
    'proxies/eu-primary#2',
    'proxies/eu-primary#1',
  ])
  // The first is out by now. The second has failures to spare, but a task that has just met one goes on to the next tier.
  const spare = await box.get(url, { avoidProxy: 'proxies/eu-primary#2' })
  expect(spare.proxy).toBe('proxies/us-spare#1')
  await spare.remove()
  await box.failure(url)
  await box.failure(url)
  expect(states()).toEqual(['proxies/eu-primary#1 out', 'proxies/eu-primary#2 out', 'proxies/us-spare#1 healthy'])
  expect(await get()).toBe('proxies/us-spare#1')

  await proxies[2]?.close()
  nowMs += 10_000
  await tries(url, 3)
  const exhausted = await box.failure(url)
  expect(exhausted).toMatchObject({
    code: 'DOWNLOAD_PROXY_EXHAUSTED',
    retryAfterMs: 20_000,
    context: { proxy: null, status: null },
  })
  const asked = origin.connections
  expect((await box.failure(url)).code).toBe('DOWNLOAD_PROXY_EXHAUSTED')
  expect(origin.connections).toBe(asked)
})

describe('a proxy', () => {
  const only = (use: ForwardProxy): void => {
    for (const proxy of proxies) if (proxy !== use) proxy.become('fails')
  }

  test.each([
    ['refuses', 'PROXY_REFUSED', 403],
    ['fails', 'PROXY_GATEWAY', 502],
    ['resets', 'PROXY_BROKEN', null],
    ['babbles', 'PROXY_BROKEN', null],
  ] as const)('that %s is to blame itself: %s', async (mode, proxyCode, proxyStatus) => {
    for (const proxy of proxies) proxy.become(mode)
    const failure = await box.failure(origin.plan('/fine', answer(200, 'fine')))
    expect(failure).toMatchObject({
      code: 'DOWNLOAD_PROXY_FAILED',
      // Not the origin's: nobody has asked it.
      context: { proxy: 'proxies/eu-primary#1', status: null, proxyCode, proxyStatus },
    })
    expect(box.transfer.proxies()[0]?.lastFailure).not.toBeNull()
  })

  test('a proxy whose answer breaks off is not blamed, because the origin may be at fault', async () => {
    const [first] = proxies as [ForwardProxy]
    only(first)
    first.become('cuts')
    const failure = await box.failure(origin.plan('/fine', answer(200, 'fine')))
    expect(failure).toMatchObject({ code: 'DOWNLOAD_CONNECTION', context: { proxy: 'proxies/eu-primary#1' } })
    expect(box.transfer.proxies()[0]).toMatchObject({ failures: 0, state: 'healthy' })
  })

  test('that says of one origin again and again that it is unreachable stays in', async () => {
    for (const proxy of proxies) proxy.become('fails')
    await tries(origin.url('/fine'), 12)
    expect(states().filter((state) => !state.endsWith('healthy'))).toEqual([])
  })

  describe('of which there is one', () => {
    let single: ForwardProxy
    let own: Rig
    // Each download needs a tunnel of its own.
    const fine = () => origin.plan('/fine', answer(200, 'fine', { connection: 'close' }))

    beforeEach(async () => {
      single = await forwardProxy()
      const tiers = [[{ pool: 'p', urls: [single.url] }]]
      const limits = { ...LIMITS, connectMs: 1000 }
      own = await rig({ outbound: { allow: [origin.address] }, limits, proxies: tiers, nowMs: () => nowMs })
    })
    afterEach(async () => {
      await own.stop()
      await single.close()
    })

    const twiceBroken = async (): Promise<void> => {
      single.become('resets')
      for (let i = 0; i < 2; i++) expect((await own.failure(fine())).code).toBe('DOWNLOAD_PROXY_FAILED')
      single.become('ok')
    }

    test('and that works in between begins anew', async () => {
      await twiceBroken()
      await (await own.get(fine())).remove()
      await twiceBroken()
      expect(own.transfer.proxies()[0]).toMatchObject({ state: 'healthy', failures: 4, failuresInRow: 2 })
      await proxyOut()
    })

    test.each([
      ['hangs', 'PROXY_TIMEOUT'],
      ['refuses', 'PROXY_REFUSED'],
    ] as const)('and that %s for one origin alone is named, and stays in', async (mode, proxyCode) => {
      single.become(mode)
      for (let i = 0; i < 2; i++) {
        expect(await own.failure(fine())).toMatchObject({ code: 'DOWNLOAD_PROXY_FAILED', context: { proxyCode } })
      }
      expect(own.transfer.proxies()[0]).toMatchObject({ state: 'healthy', failures: 2, failuresInRow: 1 })
    })

    test('is probed again when the origin, and not the proxy, ended its probe', async () => {
      await twiceBroken()
      await proxyOut()
      nowMs += 30_000
      expect((await own.failure(origin.plan('/reset', { send: [], ends: 'reset' }))).code).toBe('DOWNLOAD_CONNECTION')
      await (await own.get(fine())).remove()
      expect(own.transfer.proxies()[0]?.state).toBe('healthy')
    })

    async function proxyOut(): Promise<void> {
      single.become('resets')
      await own.failure(fine())
      single.become('ok')
      expect((await own.failure(fine())).code).toBe('DOWNLOAD_PROXY_EXHAUSTED')
    }
  })

  test('the record names the proxy and never its password [F4]', async () => {
    await proxies[0]?.close()
    const failure = await box.failure(origin.plan('/fine', answer(200)))
    const told = JSON.stringify([failure.message, failure.context, failure.cause, box.transfer.proxies()])
    expect(told).toContain('proxies/eu-primary#1')
    expect(told).not.toContain('hunter2')
  })
})

test('a wrong login is the proxy’s refusal', async () => {
  const strict = await forwardProxy({ login: 'me:other' })
  const own = await rig({
    outbound: { allow: [origin.address] },
    proxies: [[{ pool: 'p', urls: [strict.url.replace('other', 'wrong')] }]],
  })
  expect(await own.failure(origin.plan('/fine', answer(200)))).toMatchObject({
    code: 'DOWNLOAD_PROXY_FAILED',
    context: { proxy: 'p#1', proxyCode: 'PROXY_AUTH', proxyStatus: 407 },
  })
  await own.stop()
  await strict.close()
})

test('an untrusted certificate is DOWNLOAD_TLS, directly and through a proxy, and a trusted one is accepted', async () => {
  const secure = await OriginServer.start(TEST_SERVER)
  const url = secure.plan('/secret', answer(200, 'secret'))
  const through = await forwardProxy()
  const outbound = { allow: [secure.address] }
  const tiers = [[{ pool: 'p', urls: [through.url] }]]
  for (const way of [{}, { proxies: tiers }]) {
    const stranger = await rig({ outbound, ...way })
    expect(await stranger.failure(url)).toMatchObject({ code: 'DOWNLOAD_TLS', context: { status: null } })
    expect(stranger.transfer.proxies().map(({ failures, state }) => [failures, state])).toEqual(
      'proxies' in way ? [[0, 'healthy']] : [],
    )
    await stranger.stop()
    const friend = await rig({ outbound, ca: TEST_CA, ...way })
    const spooled = await friend.get(url)
    expect(spooled.bytes).toBe(6)
    await spooled.remove()
    await friend.stop()
  }
  await secure.stop()
  await through.close()
})
