import { Validator } from '@seriousme/openapi-schema-validator'
import { expect, test } from 'vitest'
import { TABLE_ROUTES } from '../../../src/http/routes/routes.ts'
import { CATALOG, type CatalogEntry, type OperationName } from '../../../src/operations/catalog.ts'
import { callOf } from '../calls.ts'
import { dumpOf } from '../dump.ts'
import { CALLERS, type CallerName, makeWorld, WHOSE, type Whose } from '../world.ts'
import { Contract, templateOf } from './document.ts'

const RANK = { viewer: 1, operator: 2, admin: 3 } as const

/** About one thing, which may be there or not; the others are about all there are. */
const isAboutOne = (name: OperationName): boolean => CATALOG[name].http.includes(':')

/** What the table says, and nothing else. */
function expected(name: OperationName, caller: CallerName, whose: Whose): number {
  const { role, allowsOwners }: CatalogEntry = CATALOG[name]
  if (caller === 'stranger' || caller === 'expired' || caller === 'revoked') return 401
  if (caller === 'scoped') return name === 'workers.list' ? 200 : 403
  if (caller === 'owner') {
    if (allowsOwners !== true) return 403
    return whose !== 'own' && isAboutOne(name) ? 404 : 200
  }
  if (RANK[caller] < RANK[role]) return 403
  return whose === 'missing' && isAboutOne(name) ? 404 : 200
}

const CODES: Readonly<Record<number, RegExp>> = {
  401: /^SIGN_IN_REQUIRED$/,
  403: /^ROLE_TOO_LOW$/,
  404: /_(NOT_FOUND|UNKNOWN)$/,
}

test('every route answers every caller as the catalogue and the OpenAPI document say, and a dry run changes nothing', async () => {
  const world = await makeWorld({ limits: { wrongSecretsPerMinute: 100_000 } })
  const contract = new Contract((await world.ask('/openapi.json', { as: 'viewer' })).json)
  const before = dumpOf(world.file)
  const wrong: string[] = []
  let cells = 0
  for (const route of TABLE_ROUTES) {
    for (const caller of CALLERS) {
      for (const whose of WHOSE) {
        const { path, asking } = callOf(route, world.inputOf(route.name, whose))
        const answer = await world.ask(path, { as: caller, ...asking })
        const { status, text, json } = answer
        const cell = `${route.name} by ${caller}, ${whose}`
        const should = expected(route.name, caller, whose)
        if (status !== should) wrong.push(`${cell}: ${status}, not ${should}: ${text.slice(0, 200)}`)
        else if (status >= 400 && !CODES[status]?.test(json.error.code)) wrong.push(`${cell}: ${json.error.code}`)
        wrong.push(...contract.problems(route.method, templateOf(route.url), answer).map((one) => `${cell}: ${one}`))
        cells++
      }
    }
  }
  expect(wrong).toEqual([])
  expect(cells).toBe(TABLE_ROUTES.length * CALLERS.length * WHOSE.length)
  expect(dumpOf(world.file)).toEqual(before)
})

test('the document is valid OpenAPI 3.1, and has every route of the table', async () => {
  const world = await makeWorld()
  const { json } = await world.ask('/openapi.json', { as: 'owner' })
  expect(await new Validator().validate(json)).toMatchObject({ valid: true })
  for (const { method, url } of TABLE_ROUTES) expect(json.paths[templateOf(url)]).toHaveProperty(method.toLowerCase())
})

test.each(CALLERS)('routes outside the catalogue, for %s', async (caller) => {
  const isKnown = !['stranger', 'expired', 'revoked'].includes(caller)
  const { ask } = await makeWorld()
  for (const path of ['/healthz', '/readyz']) expect(await ask(path, { as: caller })).toMatchObject({ status: 200 })
  for (const path of ['/api/me', '/openapi.json']) {
    expect(await ask(path, { as: caller })).toMatchObject({ status: isKnown ? 200 : 401 })
  }
  const mayMeasure = ['viewer', 'operator', 'admin'].includes(caller)
  expect((await ask('/metrics', { as: caller })).status).toBe(isKnown ? (mayMeasure ? 200 : 403) : 401)
})

test('an unsupported method is refused with the supported ones, and HEAD works like GET', async () => {
  const world = await makeWorld()
  for (const { method, url, name } of TABLE_ROUTES) {
    const { path } = callOf({ method, url }, world.inputOf(name, 'own'))
    const bare = path.split('?')[0] as string
    const refused = await world.ask(bare, { as: 'admin', method: 'PATCH' })
    expect({ status: refused.status, code: refused.json.error.code }, url).toEqual({
      ...{ status: 405, code: 'METHOD_NOT_ALLOWED' },
    })
    expect(refused.headers.allow?.split(', '), url).toContain(method)
    if (method !== 'GET') continue
    const [got, head] = [await world.ask(path, { as: 'admin' }), await world.ask(path, { as: 'admin', method: 'HEAD' })]
    expect({ status: head.status, text: head.text }, url).toEqual({ status: got.status, text: '' })
    expect(head.headers['content-type']).toBe(got.headers['content-type'])
  }
  expect(await world.ask('/healthz', { method: 'HEAD' })).toMatchObject({ status: 200 })
  expect(await world.ask('/api/events', { as: 'admin', method: 'HEAD' })).toMatchObject({ status: 405 })
  expect((await world.ask('/api/events', { as: 'admin', method: 'DELETE' })).headers.allow).toBe('GET')
  expect(await world.ask('/api/nothing', { as: 'admin', method: 'PUT' })).toMatchObject({ status: 404 })
})
