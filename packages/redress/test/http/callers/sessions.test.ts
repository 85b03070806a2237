import { expect, test } from 'vitest'
import { TABLE_ROUTES } from '../../../src/http/routes/routes.ts'
import { callOf } from '../calls.ts'
import { dumpOf } from '../dump.ts'
import { makeWorld, type World } from '../world.ts'

const linkOf = async ({ app }: World): Promise<string> =>
  String((await app.perform('sign-in-links.create', { actor: 'olga' })).code)

/** What a browser sends back of what it was given. */
const cookieOf = (headers: { 'set-cookie'?: string[] | undefined }): string =>
  String(headers['set-cookie']?.[0]?.split(';')[0])

test('a sign-in link works once, and only its button uses it up', async () => {
  const world = await makeWorld()
  const { ask, server } = world
  const code = await linkOf(world)
  for (let looks = 0; looks < 3; looks++) {
    const { status, text, headers } = await ask(`/sign-in?code=${code}`)
    expect(status).toBe(200)
    expect(text).toContain(`value="${code}"`)
    expect(headers['cache-control']).toBe('no-store')
    expect(headers['set-cookie']).toBeUndefined()
  }
  const form = { 'content-type': 'application/x-www-form-urlencoded', origin: server.url }
  const signedIn = await ask('/sign-in', { rawBody: `code=${code}`, headers: form })
  expect(signedIn).toMatchObject({ status: 303, headers: { location: '/' } })
  const cookie = cookieOf(signedIn.headers)
  expect((await ask('/api/me', { headers: { cookie } })).json).toMatchObject({ name: 'olga', role: 'admin' })
  const again = await ask('/sign-in', { rawBody: `code=${code}`, headers: form })
  expect(again.status).toBe(401)
  expect(again.text).toContain('This link is invalid, expired or already used.')
  expect(again.text).not.toContain(code)
})

test('sign-in returns visitors to the page they asked for, never to another site', async () => {
  const world = await makeWorld()
  const { ask, server } = world
  const door = await ask('/jobs/7?tab=events')
  expect(door).toMatchObject({ status: 303, headers: { location: '/sign-in' } })
  const form = { 'content-type': 'application/x-www-form-urlencoded', origin: server.url }
  const signIn = async (cookie: string) =>
    ask('/sign-in', { rawBody: `code=${await linkOf(world)}`, headers: { ...form, cookie } })
  const signedIn = await signIn(cookieOf(door.headers))
  expect(signedIn).toMatchObject({ status: 303, headers: { location: '/jobs/7?tab=events' } })
  expect(signedIn.headers['set-cookie']).toContainEqual(expect.stringMatching(/^redress-back=;/))
  for (const wrong of [
    '//evil.example',
    '/\\evil.example',
    'https://evil.example',
    '/a\r\nx: y',
    `/${'a'.repeat(1_000)}`,
  ]) {
    const { headers } = await signIn(`redress-back=${encodeURIComponent(wrong)}`)
    expect(headers.location, wrong).toBe('/')
  }
})

test('a session is accepted from its own pages only, and ends with sign-out', async () => {
  const world = await makeWorld()
  const { ask, server, jobs } = world
  const cookie = cookieOf((await ask('/sign-in', { body: { code: await linkOf(world) } })).headers)
  const act = (headers: Record<string, string>) =>
    ask(`/api/jobs/${jobs.bob.queued}/cancel`, {
      body: { reason: 'a test', dryRun: true },
      headers: { cookie, ...headers },
    })
  // A program with a cookie jar says nothing of where it comes from; every browser does.
  expect(await act({})).toMatchObject({ status: 200 })
  expect(await act({ 'sec-fetch-site': 'cross-site' })).toMatchObject({ status: 403 })
  expect(await act({ origin: 'https://evil.example' })).toMatchObject({ status: 403 })
  expect(await act({ origin: server.url })).toMatchObject({ status: 200 })
  // To show any token besides does not make a browser a program.
  expect(await act({ authorization: 'Bearer x', origin: 'https://evil.example' })).toMatchObject({ status: 403 })
  const out = await ask('/sign-out', { method: 'POST', headers: { cookie, origin: server.url } })
  expect(out).toMatchObject({ status: 303, headers: { location: '/sign-in' } })
  expect(out.headers['set-cookie']?.[0]).toMatch(/^redress=;.*(Max-Age=0|Expires=Thu, 01 Jan 1970)/)
  expect(await ask('/api/me', { headers: { cookie } })).toMatchObject({ status: 401 })
})

test('on loopback the cookie has a plain name; under https it belongs to this host alone', async () => {
  const plain = await makeWorld()
  const [cookie] = (await plain.ask('/sign-in', { body: { code: await linkOf(plain) } })).headers['set-cookie'] ?? []
  expect(cookie).toMatch(/^redress=rdrs_[\w-]{43}; Max-Age=43200; Path=\/; HttpOnly; SameSite=Lax$/)
  const world = await makeWorld({ publicUrl: 'https://jobs.example.org' })
  const headers = { host: 'jobs.example.org', origin: 'https://jobs.example.org' }
  const answer = await world.ask('/sign-in', { body: { code: await linkOf(world) }, headers })
  expect(answer.headers['set-cookie']?.[0]).toMatch(
    /^__Host-redress=rdrs_[\w-]{43}; Max-Age=43200; Path=\/; HttpOnly; Secure; SameSite=Lax$/,
  )
  // The plain name is not taken there: a page of a neighbour could have set it.
  const secret = cookieOf(answer.headers).split('=')[1]
  expect(await world.ask('/api/me', { headers: { ...headers, cookie: `redress=${secret}` } })).toMatchObject({
    status: 401,
  })
  expect((await world.ask('/openapi.json', { as: 'viewer', headers })).text).toContain('"__Host-redress"')
})

test.each(['redress', 'redress=', 'redress="', '=', ';;;', 'redress=%E0%A4%A', 'redress=a; redress=b', '\x80\xff'])(
  'a malformed cookie (%j) is no session and no trouble',
  async (cookie) => {
    const { ask } = await makeWorld()
    expect(await ask('/api/jobs', { headers: { cookie } })).toMatchObject({ status: 401 })
  },
)

test('no GET changes the store', async () => {
  const world = await makeWorld()
  const before = dumpOf(world.file)
  for (const route of TABLE_ROUTES.filter(({ method }) => method === 'GET')) {
    const { path } = callOf(route, world.inputOf(route.name, 'own'))
    expect(await world.ask(path, { as: 'admin' }), route.name).toMatchObject({ status: 200 })
    expect(dumpOf(world.file), route.name).toEqual(before)
  }
  const others = ['/', '/sign-in?code=x', '/sign-out', '/api/me', '/metrics', '/openapi.json', '/healthz', '/readyz']
  for (const path of others) await world.ask(path, { as: 'admin' })
  expect(dumpOf(world.file)).toEqual(before)
})
