import { describe, expect, onTestFinished, test } from 'vitest'
import {
  clientAddress,
  type Mount,
  type ServerOptions,
  startServer,
  type TrustedProxies,
} from '../../../src/http/index.ts'
import { redress } from '../../../src/index.ts'
import { type Asking, ask } from '../world.ts'

/** Says what the server believes of a caller. */
const mirror: Mount = (server) => {
  server.get('/mirror', async (request) => ({
    address: clientAddress(request),
    host: request.host,
    scheme: request.protocol,
  }))
}

/** A server without jobs or people. */
async function serve(options: Partial<ServerOptions>) {
  const app = redress({ store: 'sqlite::memory:' })
  onTestFinished(() => app.stop())
  const server = await startServer({ app, port: 0, mounts: [mirror], ...options })
  onTestFinished(() => server.stop({ graceMs: 0 }))
  await server.ready
  return { server, ask: (path: string, asking: Asking) => ask(server.url, path, asking) }
}

const forwarded = (...entries: string[]) => ({ 'x-forwarded-for': entries.join(', ') })

describe('the address of a caller', () => {
  const behind = async (trustProxy: TrustedProxies | undefined, headers: Record<string, string>): Promise<string> => {
    const { ask } = await serve({ ...(trustProxy !== undefined && { trustProxy }) })
    return (await ask('/mirror', { headers })).json.address
  }

  test.each<[TrustedProxies | undefined, string[], string]>([
    [undefined, ['203.0.113.9'], '127.0.0.1'],
    [false, ['203.0.113.9'], '127.0.0.1'],
    [true, ['203.0.113.9'], '203.0.113.9'],
    [true, ['1.1.1.1', '2.2.2.2', '203.0.113.9'], '203.0.113.9'],
    [1, ['127.0.0.1', '203.0.113.9'], '203.0.113.9'],
    ['1', ['10.0.0.1', '203.0.113.9'], '203.0.113.9'],
    [2, ['6.6.6.6', '203.0.113.9', '10.1.2.3'], '203.0.113.9'],
    [2, ['203.0.113.9'], '203.0.113.9'],
    ['10.0.0.0/8,127.0.0.1', ['6.6.6.6', '203.0.113.9', '10.1.2.3', '10.9.9.9'], '203.0.113.9'],
    [['10.0.0.0/8', '127.0.0.1'], ['10.6.6.6', '203.0.113.9', '10.1.2.3'], '203.0.113.9'],
    ['127.0.0.1', ['203.0.113.9', '10.1.2.3'], '10.1.2.3'],
    // Not from the proxy: this client has reached the server directly.
    ['10.0.0.0/8', ['203.0.113.9'], '127.0.0.1'],
    [true, ['203.0.113.9:4711'], '203.0.113.9'],
    [true, ['::ffff:203.0.113.9'], '203.0.113.9'],
    [true, ['2001:db8:1:2:3:4:5:6'], '2001:db8:1:2::/64'],
    [true, ['[2001:db8:1:2::9]:443'], '2001:db8:1:2::/64'],
  ])('with the trusted proxies %j, X-Forwarded-For: %j means %s', async (trustProxy, entries, address) => {
    expect(await behind(trustProxy, forwarded(...entries))).toBe(address)
  })

  test.each([0, -1, 1.5, 21, '0', '-1', '', 'everyone', '0.0.0.0/0', '::/0', '10.0.0.0/33', '10.0.0.1,,', []])(
    'trusting %j is refused before the server listens',
    async (trustProxy) => {
      await expect(serve({ trustProxy })).rejects.toMatchObject({ code: 'OPTION_INVALID' })
    },
  )

  test('a caller that forges X-Forwarded-For does not get around the limit of wrong secrets', async () => {
    const { ask } = await serve({ trustProxy: true, limits: { wrongSecretsPerMinute: 3 } })
    const statuses: number[] = []
    for (let n = 1; n <= 5; n++) {
      const headers = forwarded(`198.51.100.${n}`, '203.0.113.9')
      statuses.push((await ask('/api/jobs', { token: `rdrs_wrong_${n}`, headers })).status)
    }
    expect(statuses).toEqual([401, 401, 401, 429, 429])
    expect(await ask('/api/jobs', { token: 'rdrs_wrong', headers: forwarded('203.0.113.10') })).toMatchObject({
      status: 401,
    })
  })
})

describe('the host and scheme that a proxy names', () => {
  const headers = { 'x-forwarded-host': 'jobs.example.org', 'x-forwarded-proto': 'https' }

  test('are used only from a trusted proxy', async () => {
    const world = (trustProxy: TrustedProxies) => serve({ trustProxy, publicUrl: 'https://jobs.example.org' })
    const [trusted, not] = [await world('127.0.0.1'), await world('10.0.0.0/8')]
    expect((await trusted.ask('/mirror', { headers })).json).toMatchObject({
      host: 'jobs.example.org',
      scheme: 'https',
    })
    expect((await not.ask('/mirror', { headers })).json).toMatchObject({
      host: new URL(not.server.url).host,
      scheme: 'http',
    })
  })

  test('a host that is not a name of the server is refused', async () => {
    const { ask } = await serve({ trustProxy: true, publicUrl: 'https://jobs.example.org' })
    const evil = { 'x-forwarded-host': 'jobs.example.org, evil.example' }
    expect(await ask('/mirror', { headers: evil })).toMatchObject({ status: 403 })
  })
})
