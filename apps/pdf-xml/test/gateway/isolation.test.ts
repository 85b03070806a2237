import { once } from 'node:events'
import { readlinkSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { keepingLog } from '../../../../test/support/scene.ts'
import { findIsolation, forkIsolated, type Isolation } from '../../src/gateway/isolation.ts'
import { startGateway } from '../../src/gateway/server.ts'
import { plain } from './pdfs.ts'
import { descendants, send } from './world.ts'

const OPEN: Isolation = { command: [], whyOpen: 'a test' }

/** What code says that runs as a parser does and dials a listener on the loopback. */
async function dialled(isolation: Isolation): Promise<string> {
  const server = createServer((socket) => socket.end())
  onTestFinished(() => void server.close())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const fixture = join(import.meta.dirname, 'fixtures/dial.ts')
  const child = forkIsolated(fixture, ['--permission', `--allow-fs-read=${import.meta.dirname}`], isolation)
  child.send((server.address() as AddressInfo).port)
  const [said] = (await once(child, 'message')) as [string]
  return said
}

test('code in the process of a parser cannot connect to a listener of this machine, where namespaces are allowed', async () => {
  const isolation = await findIsolation()
  // Without isolation it can: Node's permission model does not cover the network.
  expect(await dialled(OPEN)).toBe('connected')
  if (isolation.whyOpen === null) expect(await dialled(isolation)).toMatch(/ENETUNREACH|EHOSTUNREACH|EACCES/)
  else expect(isolation).toEqual({ command: [], whyOpen: expect.stringMatching(/\w/) })
})

test('the parsers of a gateway are isolated, and its health and log say whether they are', async () => {
  const log = keepingLog()
  const before = new Set(descendants(process.pid))
  const gateway = await startGateway({ parsers: 1, log })
  onTestFinished(() => gateway.stop())
  expect((await send(gateway.url, plain())).status).toBe(200)
  const { network } = (await (await fetch(`${gateway.url}/health`)).json()) as { network: string }
  const [parser = 0] = descendants(process.pid).filter((pid) => !before.has(pid))
  const isApart = readlinkSync(`/proc/${parser}/ns/net`) !== readlinkSync('/proc/self/ns/net')
  expect(network).toBe(isApart ? 'closed' : 'open')
  expect(log.lines.filter(({ fields }) => fields.event === 'parser_network_open')).toHaveLength(isApart ? 0 : 1)
})

test('where no way works, the parser has its network and the reason is known', async () => {
  expect(await findIsolation([['no-such-program-anywhere']])).toEqual({
    command: [],
    whyOpen: 'there is no program no-such-program-anywhere in PATH',
  })
  expect(await findIsolation([['false']])).toMatchObject({ command: [], whyOpen: 'false failed (1)' })
})
