import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fetchbox from '@redress/fetchbox'
import pdfXml from '@redress/pdf-xml'
import proxx from '@redress/proxx'
import watermark from '@redress/watermark'
import { Validator } from '@seriousme/openapi-schema-validator'
import { redress } from 'redress'
import { type AppModule, type Mount, startServer } from 'redress/http'
import { expect, onTestFinished, test } from 'vitest'
import { silentLog } from '../../packages/redress/src/runtime/log.ts'

interface Described {
  summary: string
  operationId: string
  security?: object[]
  requestBody?: { content: Record<string, { schema: object }> }
  responses: Record<string, { content?: Record<string, { schema: object }> }>
}

interface OpenApi extends Record<string, unknown> {
  paths: Record<string, Record<string, Described>>
}

/** Serves apps as `redress start` does; says which routes they have added, as the router was told. */
async function served(modules: readonly AppModule[]): Promise<{ document: OpenApi; mounted: string[] }> {
  const home = mkdtempSync(join(tmpdir(), 'redress-routes-'))
  onTestFinished(() => rmSync(home, { recursive: true, force: true }))
  const app = redress({ store: `sqlite:${join(home, 'redress.db')}` })
  const mounted: string[] = []
  const recorded =
    (mount: Mount): Mount =>
    async (server, tools) => {
      server.addHook('onRoute', ({ method, url }) => {
        mounted.push(...[method].flat().map((one) => `${one} ${url.replaceAll(/:(\w+)/g, '{$1}')}`))
      })
      await mount(server, tools)
    }
  const installed = []
  for (const module of modules) {
    installed.push(await module.install(app, { home: join(home, module.name), env: {}, log: silentLog }))
  }
  const mounts = installed.flatMap(({ mount }) => (mount === undefined ? [] : [recorded(mount)]))
  const server = await startServer({ app, port: 0, auth: 'none', mounts })
  await server.ready
  const document = (await (await fetch(`${server.url}/openapi.json`)).json()) as OpenApi
  await server.stop({ graceMs: 0 })
  await app.stop({ graceMs: 0 })
  for (const one of installed) await one.stop?.()
  return { document, mounted: mounted.filter((route) => !route.startsWith('HEAD ')) }
}

const SYSTEMS = [pdfXml, watermark, fetchbox, proxx]

test('the OpenAPI document lists every route of the apps that run, and stays valid', async () => {
  const { document, mounted } = await served(SYSTEMS)
  const listed = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  )
  expect(mounted.length).toBeGreaterThan(50)
  expect(mounted.filter((route) => !listed.includes(route))).toEqual([])
  expect(await new Validator().validate(document)).toMatchObject({ valid: true })
  const ids = Object.values(document.paths).flatMap((methods) => Object.values(methods).map((one) => one.operationId))
  expect(ids.filter((id, at) => ids.indexOf(id) !== at)).toEqual([])
}, 60_000)

test('every route of the four systems has a summary, and says what it answers with and what it takes', async () => {
  const { document, mounted } = await served(SYSTEMS)
  const problems = mounted.flatMap((route) => {
    const [method = '', path = ''] = route.split(' ')
    const described = document.paths[path]?.[method.toLowerCase()]
    if (described === undefined) return [`${route} is not listed`]
    const { summary, responses, requestBody } = described
    const answers = Object.entries(responses).filter(([status]) => status !== 'default')
    const saysNothing = answers.every(
      ([status, { content = {} }]) => status < '300' && Object.keys(content).length === 0,
    )
    return [
      ...(summary === route || !/^[A-Z].*\.$/.test(summary) ? [`${route} has the summary "${summary}"`] : []),
      ...(saysNothing ? [`${route} does not say what it answers with`] : []),
      ...(requestBody !== undefined && Object.keys(requestBody.content).length === 0 ? [`${route} takes nothing`] : []),
    ]
  })
  expect(problems).toEqual([])
}, 60_000)

test('the document lists only the routes of the apps that run', async () => {
  const { document } = await served([proxx])
  expect(Object.keys(document.paths)).toContain('/proxx/jobs/{id}')
  expect(Object.keys(document.paths)).not.toContain('/fetchbox/jobs')
}, 60_000)
