import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { inProcess, inThread, redress } from 'redress'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { until } from '../../../../test/support/until.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { handlerThreads, isAlive, isGone, KINDS, type Kind } from './scene.ts'

const make = (kind: Kind) => (kind === 'thread' ? inThread : inProcess)
const FIXTURES = join(import.meta.dirname, 'fixtures')

function scratch(): string {
  const folder = mkdtempSync(join(tmpdir(), 'redress-declaring-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Runs one job with this handler, and answers with its row and failure. */
async function outcome(
  run: ReturnType<typeof inThread>,
  input: unknown = { do: 'return', value: 1 },
  begun: () => void = () => undefined,
) {
  const app = redress({ store: 'sqlite::memory:' })
  onTestFinished(() => app.stop({ graceMs: 0 }))
  app.job('one', { policy: { retry: { max: 1 } }, run })
  await app.work({ pollMs: 20 })
  begun()
  const { id } = await app.submit('one', input)
  const store = await app.store()
  const row = await until('the job has ended', async () => {
    const found = await store.job({ id })
    return found?.finishedAtMs !== null && found
  })
  return { status: row.status, result: row.result, failure: (await store.failures({ id })).at(-1) }
}

describe.each(KINDS)('in a %s', (kind) => {
  test('the module can be named by a relative path, an absolute path and a URL', async () => {
    const file = join(FIXTURES, 'acts.ts')
    const ways = ['./fixtures/acts.ts', file, pathToFileURL(file), pathToFileURL(file).href]
    for (const way of ways) expect(await outcome(make(kind)(way))).toMatchObject({ result: '1' })
  })

  test.each(['ts', 'mts', 'cts', 'js', 'mjs', 'cjs'])('the module can be a .%s file', async (ending) => {
    const file = join(scratch(), `double.${ending}`)
    const type = ending.endsWith('ts') ? ': number' : ''
    const name = ending.startsWith('c') ? 'module.exports =' : 'export default'
    // Without a package.json, Node tells the kind of module from its syntax.
    writeFileSync(file, `${name} function (input${type}) { return input * 2 }\n`)
    expect(await outcome(make(kind)(file), 21)).toMatchObject({ result: '42' })
  })

  test('the name of the source also finds the compiled file beside the caller', async () => {
    const folder = scratch()
    writeFileSync(join(folder, 'double.mjs'), 'export default (input) => input * 2\n')
    expect(await outcome(make(kind)(join(folder, 'double.mts')), 21)).toMatchObject({ result: '42' })
  })

  test('a missing file is refused when the type is declared', () => {
    expect(() => make(kind)('./fixtures/absent.ts')).toThrow(
      expect.objectContaining({
        code: 'OPTION_INVALID',
        message: expect.stringContaining(`there is no module ${join(FIXTURES, 'absent.ts')}`),
      }),
    )
  })

  test.each([
    ['has no default function', 'export const run = 1', /has no default export that is a function/],
    ['throws at its import', "throw new Error('no licence')", /cannot be imported: no licence/],
    ['does not parse', 'export default function (', /cannot be imported/],
    [
      'imports a missing package',
      "import 'not-installed'\nexport default () => 1",
      /cannot be imported: .*not-installed/,
    ],
    ['ends its thread or process', 'process.exit(3)', /exited with code 3/],
  ])('a worker does not start with a module that %s', async (_, code, said) => {
    const file = join(scratch(), 'broken.mjs')
    writeFileSync(file, code)
    await expect(outcome(make(kind)(file))).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringMatching(/^The worker cannot run one: /),
    })
    await expect(outcome(make(kind)(file))).rejects.toThrow(said)
  })

  test.each([
    ['waits forever', 'await new Promise(() => setInterval(() => undefined, 1_000))\nexport default () => 1'],
    ['never returns', 'for (;;);\nexport default () => 1'],
  ])('a module whose import %s is refused with its file and the time limit', async (_, code) => {
    const file = join(scratch(), 'hanging.mjs')
    writeFileSync(file, code)
    const starting = outcome(make(kind)(file))
    const hosts = () => (kind === 'thread' ? handlerThreads() : 0)
    const setTimer = systemClock.setTimer.bind(systemClock)
    // The time limit is shortened: the module hangs as long as it may.
    vi.spyOn(systemClock, 'setTimer').mockImplementation((delayMs, wake) =>
      setTimer(delayMs === 30_000 ? 500 : delayMs, wake),
    )
    onTestFinished(() => void vi.restoreAllMocks())
    await expect(starting).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: `The worker cannot run one: the handler ${file} was not imported within 30 s.`,
      action: expect.stringContaining('top level'),
    })
    await until('its thread is gone', () => hosts() === 0)
  })

  test.each([
    ['is removed', null, /cannot be imported/],
    ['loses its default function', 'export const run = 1', /has no default export that is a function/],
  ])('a module that %s while the worker runs fails the attempt with HANDLER_NOT_LOADED', async (_, code, said) => {
    const file = join(scratch(), 'changed.mjs')
    writeFileSync(file, 'export default () => 1')
    const changed = () => (code === null ? rmSync(file) : writeFileSync(file, code))
    const { failure } = await outcome(make(kind)(file, { fresh: true }), 1, changed)
    expect(failure).toMatchObject({
      code: 'HANDLER_NOT_LOADED',
      fault: 'operator',
      detail: expect.stringMatching(said),
    })
  })

  test.each([
    [{ memoryMB: 5 }, 'has no option "memoryMB"'],
    [{ memoryMb: 1 }, 'memoryMb must be a whole number from 16'],
    [{ timeout: 0 }, 'timeout must be longer than zero'],
    [{ timeout: 'soon' }, 'timeout: "soon" is not a duration'],
    [{ graceMs: -1 }, 'graceMs must be a whole number from 0'],
    [{ idleMs: Number.NaN }, 'idleMs must be a whole number'],
    [{ fresh: 'yes' }, 'fresh must be true or false'],
  ])('the options %j are refused', (options, said) => {
    expect(() => make(kind)('./fixtures/acts.ts', options as object)).toThrow(
      expect.objectContaining({ code: 'OPTION_INVALID', message: expect.stringContaining(said) }),
    )
  })

  test('an argument that is neither a path nor a URL of a file is refused', () => {
    for (const file of ['', 7, null, new URL('https://example.com/a.js')]) {
      expect(() => make(kind)(file as string)).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }))
    }
  })

  test('an input that cannot be copied fails the attempt and says why', async () => {
    const run = make(kind)('./fixtures/acts.ts')
    const wrapped = (_: unknown, attempt: Parameters<typeof run>[1]) => run({ do: () => 1 }, attempt)
    const { failure } = await outcome(wrapped)
    expect(failure?.detail).toContain(`the input cannot be copied to a ${kind}`)
  })
})

test.each([
  [{ env: { A: 1 } }, 'env must be an object of texts'],
  [{ cwd: '/no/such/folder' }, 'cwd is not a folder'],
  [{ permissions: { raed: [] } }, 'has no option "raed"'],
  [{ permissions: { read: ['relative'] } }, 'permissions.read must be a list of absolute paths'],
])('inProcess refuses the options %j', (options, said) => {
  expect(() => inProcess('./fixtures/acts.ts', options as object)).toThrow(
    expect.objectContaining({ code: 'OPTION_INVALID', message: expect.stringContaining(said) }),
  )
})

test('a relative path without a calling file is refused with the URL to use instead', () => {
  // Code of `eval` has no file.
  const call = new Function('inThread', "return inThread('./a.ts')") as (of: typeof inThread) => unknown
  expect(() => call(inThread)).toThrow(expect.objectContaining({ action: 'Use `new URL("./a.ts", import.meta.url)`.' }))
})

describe('when the program of the worker is killed', () => {
  test.each(['hang', 'spin'])('the process of a handler ends with it, and what it started: %s', async (how) => {
    const begun = join(scratch(), 'begun')
    const args = ['--conditions=redress-source', join(FIXTURES, 'orphaned.ts'), begun, how]
    const program = spawn(process.execPath, args, { stdio: 'ignore' })
    onTestFinished(() => void program.kill('SIGKILL'))
    await until('the handler has begun', () => existsSync(begun) && readFileSync(begun, 'utf8'))
    const started = readFileSync(begun, 'utf8').split(' ').map(Number)
    for (const pid of started) expect(isAlive(pid)).toBe(true)
    program.kill('SIGKILL')
    for (const pid of started) await isGone(pid)
  })
})
