import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test, vi } from 'vitest'
import { allAppCommands } from '../../packages/redress/src/cli/apps/app-commands.ts'
import { COMMANDS } from '../../packages/redress/src/cli/language/commands.ts'
import { COMMON_OPTIONS, findCommand, readOptions } from '../../packages/redress/src/cli/language/parse.ts'
import { programOf } from '../../packages/redress/src/cli/programs.ts'

const ROOT = join(import.meta.dirname, '../..')
/** With those of the four systems. */
const commands = [...COMMANDS, ...(await allAppCommands())]

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
  const jobs = await Promise.all(submitted.map(({ id }) => app.jobs.find(id)))
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
    .filter((line) => !line.includes('redress is running') && !line.includes('redress: '))
  expect(shown.length).toBeGreaterThan(20)
  for (const line of shown)
    expect(findCommand(line.trim().split(/ +/).slice(1), commands).kind, line).toMatch(/command|help/)
})

test('every command that the documents show has the options and the words that it is shown with, and the reason it asks for', async () => {
  const pages = ['README.md', ...readdirSync(join(ROOT, 'docs'), { recursive: true }).map((name) => `docs/${name}`)]
  const shown = pages
    .filter((path) => path.endsWith('.md'))
    .flatMap((path) => {
      const text = readFileSync(join(ROOT, path), 'utf8').replaceAll(/\\\n +/g, '')
      return [...text.matchAll(/^```sh\n(.*?)^```/gms)].flatMap(([, block = '']) =>
        (block.match(/^ *(bin\/)?redress .*$/gm) ?? []).map((line) => ({ path, line: line.trim() })),
      )
    })
  expect(shown.length).toBeGreaterThan(100)
  const wrong: string[] = []
  for (const { path, line } of shown) {
    try {
      const found = findCommand(wordsOf(line).slice(1), commands)
      if (found.kind !== 'command') continue
      const { options } = await programOf(found.command)
      const { values } = readOptions(found.command, found.rest, [...options, ...COMMON_OPTIONS])
      const asks = options.some(({ field, fallback }) => field === 'reason' && fallback === null)
      if (asks && values.reason === undefined) wrong.push(`${path}: ${line}: it asks for a --reason`)
    } catch (error) {
      wrong.push(`${path}: ${line}: ${(error as Error).message}`)
    }
  }
  expect(wrong).toEqual([])
})

/** As a shell takes a line apart, up to where another command or a file begins. */
function wordsOf(line: string): string[] {
  const bare = line.split(/ (?:[|>#;]|&&|2>) ?/)[0] ?? ''
  return (bare.match(/(?:'[^']*'|"[^"]*"|\$\([^)]*\)|[^\s'"])+/g) ?? []).map((word) => word.replaceAll(/['"]/g, ''))
}
