import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { App } from 'redress'
import { expect, onTestFinished, test, vi } from 'vitest'
import { temporaryFolder } from '../support/stores/sqlite.ts'
import { until } from '../support/until.ts'

const ROOT = join(import.meta.dirname, '../..')
const programOf = (page: string): string =>
  /^```ts\n(.*?)^```/ms.exec(readFileSync(join(ROOT, page), 'utf8'))?.[1] ?? ''

test('both READMEs show the same first program', () => {
  expect(programOf('packages/redress/README.md')).toBe(programOf('README.md'))
})

test('the first program of the README retries a server error, fails on a refusal and completes a good answer', async () => {
  vi.stubEnv('REDRESS_STORE', 'sqlite::memory:')
  const converter = createServer(({ url = '' }, response) => {
    const [status = '500'] = /\d+/.exec(url.split('=').at(-1) ?? '') ?? []
    response.writeHead(Number(status)).end('<document/>')
  })
  await new Promise<void>((resolve) => converter.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void converter.close())
  const folder = temporaryFolder()
  mkdirSync(join(folder, 'node_modules'))
  for (const [name, path] of [
    ['redress', 'packages/redress'],
    ['zod', 'node_modules/zod'],
  ] as const) {
    symlinkSync(join(ROOT, path), join(folder, 'node_modules', name))
  }
  const { port } = converter.address() as AddressInfo
  writeFileSync(join(folder, 'convert.ts'), programOf('README.md').replace('127.0.0.1:9000', `127.0.0.1:${port}`))
  const { default: app } = (await import(join(folder, 'convert.ts'))) as { default: App }
  onTestFinished(() => app.stop())
  const outcomes = new Map<string, unknown>()
  await app.work({
    onOutcome: ({ jobId, attempt, change }) => {
      if (attempt === 1) outcomes.set(jobId, [change.to, 'failure' in change ? change.failure?.code : null])
    },
  })
  const submitted = await app.submitMany('pdf.convert', [{ file: '503.pdf' }, { file: '415.pdf' }, { file: '200.pdf' }])
  await until('the first attempt of each job has ended', () => outcomes.size === submitted.length)
  expect(submitted.map(({ id }) => outcomes.get(id))).toEqual([
    ['queued', 'GATEWAY_DOWN'],
    ['failed', 'GATEWAY_REFUSED'],
    ['complete', null],
  ])
})
