import { expect, test } from 'vitest'
import { makeWorld } from '../world.ts'

test('pages need a session, and others are redirected to the sign-in', async () => {
  const { ask } = await makeWorld()
  for (const path of ['/', '/jobs', '/jobs/019-x', '/failures/abc', '/replays/new']) {
    const stranger = await ask(path)
    expect([stranger.status, stranger.headers.location], path).toEqual([303, '/sign-in'])
    const viewer = await ask(path, { as: 'viewer' })
    expect(viewer).toMatchObject({ status: 200, headers: { 'content-type': 'text/html; charset=utf-8' } })
  }
  expect((await ask('/nothing', { as: 'viewer' })).status).toBe(404)
})

test('the document has no inline code, and its assets are compressed and cached forever', async () => {
  const { ask } = await makeWorld()
  const { text, headers } = await ask('/', { as: 'viewer' })
  expect(text).not.toMatch(/<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=/)
  expect(headers['content-security-policy']).toContain("script-src 'self'")
  const assets = [...text.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)].map(([, path]) => String(path))
  expect(assets.length).toBeGreaterThanOrEqual(2)
  for (const path of assets) {
    const asset = await ask(path)
    expect(asset).toMatchObject({ status: 200, headers: { 'cache-control': 'public, max-age=31536000, immutable' } })
  }
  expect((await ask('/assets/nothing.js')).status).toBe(404)
  expect((await ask('/assets/..%2findex.html')).status).toBe(404)
})

test('an unchanged document is answered with 304, and otherwise compressed', async () => {
  const { ask, server, tokens } = await makeWorld()
  const first = await ask('/', { as: 'viewer' })
  const again = await ask('/', { as: 'viewer', headers: { 'if-none-match': String(first.headers.etag) } })
  expect([again.status, again.text]).toEqual([304, ''])
  const packed = await fetch(server.url, {
    headers: { authorization: `Bearer ${tokens.viewer}`, 'accept-encoding': 'gzip' },
  })
  expect(packed.headers.get('content-encoding')).toBe('gzip')
  expect(await packed.text()).toBe(first.text)
})
