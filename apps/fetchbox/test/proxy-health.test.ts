import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type ForwardProxy, forwardProxy } from '../../../test/support/servers/forward-proxy.ts'
import { answer, deadPort } from '../../../test/support/servers/origin-server.ts'
import { Rig } from './rig.ts'

let rig: Rig
let proxy: ForwardProxy
const folder = mkdtempSync(join(tmpdir(), 'redress-proxy-health-'))

beforeAll(async () => {
  proxy = await forwardProxy({ login: 'user:hunter2' })
  const dead = `http://user:hunter2@127.0.0.1:${await deadPort()}`
  const file = join(folder, 'proxies.json')
  writeFileSync(file, JSON.stringify({ tiers: [[{ pool: 'proxies/eu', urls: [proxy.url, dead] }]] }))
  rig = await Rig.open({ env: { FETCHBOX_PROXIES: file } })
  const url = rig.origin.plan('/a', answer(200, 'a'))
  const job = await rig.run(Array.from({ length: 8 }, (_, i) => ({ id: `r${i}`, url })))
  expect(job.status).toBe('complete')
})
afterAll(async () => {
  await proxy.close()
  rmSync(folder, { recursive: true })
})

test('operators see which proxies are in use and why the others are not, without a password', async () => {
  for (const name of ['operator', 'viewer'] as const) {
    const { status, json, text } = await rig.as(name).get('/fetchbox/proxies')
    expect(status).toBe(200)
    expect(json.proxies).toEqual([
      expect.objectContaining({ name: 'proxies/eu#1', tier: 1, state: 'healthy', failures: 0, outUntil: null }),
      expect.objectContaining({ name: 'proxies/eu#2', tier: 1, state: 'out', outUntil: expect.stringMatching(/Z$/) }),
    ])
    expect(json.proxies[1].lastFailure).toMatch(/\w/)
    expect(text).not.toMatch(/hunter2|127\.0\.0\.1/)
  }
})

test('clients see nothing of them', async () => {
  expect(await rig.as('ann').get('/fetchbox/proxies')).toMatchObject({
    status: 403,
    json: { error: { code: 'AUTH_ROLE' } },
  })
  expect((await rig.as('nobody').get('/fetchbox/proxies')).status).toBe(401)
})

test('the metrics have one line for each state of a proxy, and the log says when one was taken out', async () => {
  const text = await rig.app.metrics.text()
  const lines = text.split('\n').filter((line) => line.startsWith('fetchbox_proxies{'))
  expect(lines).toHaveLength(6)
  expect(lines.filter((line) => line.endsWith(' 1'))).toEqual([
    'fetchbox_proxies{pool="proxies/eu",proxy="proxies/eu#1",state="healthy"} 1',
    'fetchbox_proxies{pool="proxies/eu",proxy="proxies/eu#2",state="out"} 1',
  ])
  expect(rig.log.lines).toContainEqual(
    expect.objectContaining({
      level: 'warn',
      fields: expect.objectContaining({ event: 'proxy_out', proxy: 'proxies/eu#2', failuresInRow: 3 }),
    }),
  )
})
