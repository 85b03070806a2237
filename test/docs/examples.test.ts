import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test, vi } from 'vitest'
import { findCommand } from '../../src/cli/parse.ts'

const ROOT = join(import.meta.dirname, '../..')

test('the smallest example runs as its first lines say', async () => {
  const options = ['--conditions=redress-source', '--disable-warning=ExperimentalWarning']
  const { stdout } = await promisify(execFile)(process.execPath, [...options, join(ROOT, 'examples/hello.ts')])
  expect(stdout).toBe('complete Hello, world!\n')
})

test('the example that fails on purpose fails in the ways it names', async () => {
  vi.stubEnv('REDRESS_STORE', 'sqlite::memory:')
  const { app, order } = await import('../../examples/flaky.ts')
  const worker = await app.makeWorker()
  const shops = ['open', 'busy', 'sold-out', 'mixed-up', 'closed'] as const
  const submitted = await order.submitMany(shops.map((shop) => ({ order: 7, shop })))
  await worker.tick()
  const jobs = await Promise.all(submitted.map(({ id }) => app.find(id)))
  expect(jobs.map((job) => [job?.status, job?.errorCode])).toEqual([
    ['complete', null],
    ['queued', 'SHOP_BUSY'],
    ['failed', 'SOLD_OUT'],
    ['failed', 'WRONG_RECEIPT'],
    ['queued', 'SHOP_BUSY'],
  ])
  expect(await app.explain(submitted[1]?.id ?? '')).toContain('the error asked for 2 s')
  await app.stop()
})

test('every command that the documents show is one that exists', () => {
  const pages = ['README.md', ...readdirSync(join(ROOT, 'docs'), { recursive: true }).map((name) => `docs/${name}`)]
  const shown = pages
    .filter((path) => path.endsWith('.md'))
    .flatMap((path) => readFileSync(join(ROOT, path), 'utf8').match(/^ *(bin\/)?redress .*$/gm) ?? [])
    .filter((line) => !line.includes('redress is working') && !line.includes('redress: '))
  expect(shown.length).toBeGreaterThan(20)
  for (const line of shown) expect(findCommand(line.trim().split(/ +/).slice(1)).kind, line).toMatch(/command|help/)
})
