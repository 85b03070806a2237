import { type ChildProcess, spawn } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { environment, linkFromCheckout, projectWith, run } from './support/run/packing.ts'
import { PACKING_MS_MAX, packedPackages } from './support/run/shared-servers.ts'
import { until } from './support/until.ts'

const TEST_MS_MAX = 60_000

let scratch: string
/** A project with the published package. Those that the tests make share its node_modules. */
let installed: string
let command: string

beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'redress-init-'))
  installed = await projectWith(await packedPackages())
  const modules = join(installed, 'node_modules')
  await linkFromCheckout(modules, 'typescript')
  await symlink('../typescript/bin/tsc', join(modules, '.bin/tsc'))
  command = join(modules, '.bin/redress')
}, PACKING_MS_MAX)

afterAll(async () => {
  await rm(scratch, { recursive: true, force: true })
  await rm(installed, { recursive: true, force: true })
})

const path = dirname(process.execPath)

async function done(file: string, args: string[], cwd: string): Promise<string> {
  const { code, stdout, stderr } = await run(file, args, { cwd, path })
  expect(code, `${file} ${args.join(' ')} in ${cwd}:\n${stdout}\n${stderr}`).toBe(0)
  return stdout
}

const link = (project: string) => symlink(join(installed, 'node_modules'), join(project, 'node_modules'))

/** Starts it, has a job done, stops it, and looks for what it left behind. */
async function startedAndStopped(project: string, file: string, args: string[]): Promise<void> {
  const child: ChildProcess = spawn(file, args, { cwd: project, env: environment(path), detached: true })
  const group = -(child.pid as number)
  onTestFinished(() => {
    try {
      process.kill(group, 'SIGKILL')
    } catch (error) {
      // It has ended, and all that it started.
      expect(error).toMatchObject({ code: 'ESRCH' })
    }
  })
  let out = ''
  child.stdout?.on('data', (part) => {
    out += part
  })
  child.stderr?.on('data', (part) => {
    out += part
  })
  const ended = new Promise((resolve) => child.on('close', (code, signal) => resolve(code ?? signal)))
  await until(`it has started:\n${out}`, () => /server +http:\/\/127\.0\.0\.1:\d+/.test(out))
  const redress = join(project, 'node_modules/.bin/redress')
  const answer = await done(redress, ['submit', 'mail.welcome', '{"to":"ann@example.org"}', '--json'], project)
  const { id } = JSON.parse(answer).job
  await done(redress, ['wait', id], project)
  const [, url] = /server +(http:\/\/127\.0\.0\.1:\d+)/.exec(out) as RegExpExecArray
  const page = await fetch(`${url}/`)
  expect(page.status).toBe(200)
  expect(await page.text()).toContain('<!doctype html>')
  // As Ctrl-C does: to all processes of the terminal.
  process.kill(group, 'SIGINT')
  // npm ends by the signal itself. `close` comes when all processes have closed their output.
  expect([0, 'SIGINT']).toContain(await ended)
  await done(redress, ['doctor', '--orphans'], project)
}

test(
  'redress init makes a project in an empty folder: its test and its type check pass, it runs a job, and stops',
  async () => {
    await done(command, ['init', 'my-jobs'], scratch)
    const project = join(scratch, 'my-jobs')
    const manifest = JSON.parse(await readFile(join(project, 'package.json'), 'utf8'))
    const { version } = JSON.parse(await readFile(join(installed, 'node_modules/redress/package.json'), 'utf8'))
    expect(manifest).toMatchObject({ name: 'my-jobs', dependencies: { redress: `^${version}` } })
    await link(project)
    expect(await done('npm', ['test'], project)).toMatch(/^ℹ pass 2$/m)
    await done('npm', ['run', 'typecheck'], project)
    await startedAndStopped(project, 'npm', ['start', '--', '--port', '0'])

    const app = await readFile(join(project, 'src/app.ts'), 'utf8')
    await writeFile(join(project, 'src/app.ts'), app.replace(`fail('ADDRESS_UNKNOWN')`, `fail('ADDRESS_UNKNOWM')`))
    const { code, stdout } = await run('npm', ['run', 'typecheck'], { cwd: project, path })
    expect(code, 'a wrong code does not compile').not.toBe(0)
    expect(stdout).toContain('ADDRESS_UNKNOWM')
  },
  TEST_MS_MAX,
)

test(
  'redress init adds to a CommonJS project in TypeScript: its test passes, and the build of the project is as before',
  async () => {
    const project = await mkdtemp(join(scratch, 'typescript-'))
    await mkdir(join(project, 'src'))
    // No `include`: the build takes every file, also those that are added.
    const output = { rootDir: 'src', outDir: 'dist' }
    const compilerOptions = { module: 'nodenext', target: 'es2024', strict: true, types: ['node'], ...output }
    await writeFile(join(project, 'package.json'), JSON.stringify({ name: 'shop', type: 'commonjs' }))
    await writeFile(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions }))
    await writeFile(join(project, 'src/price.ts'), 'export const price: number = 7\n')
    await link(project)
    await done(command, ['init'], project)
    expect(await done('node', ['--test', 'src/redress/app-test.mjs'], project)).toMatch(/^ℹ pass 2$/m)
    await done('node_modules/.bin/tsc', [], project)
    expect(await readFile(join(project, 'dist/price.js'), 'utf8')).toContain('exports.price')
  },
  TEST_MS_MAX,
)

test(
  'redress init adds to a JavaScript project: its test passes, and its app runs',
  async () => {
    const project = await mkdtemp(join(scratch, 'javascript-'))
    await writeFile(join(project, 'package.json'), JSON.stringify({ name: 'shop' }))
    await link(project)
    await done(command, ['init'], project)
    expect(await done('node', ['--test', 'redress/app-test.mjs'], project)).toMatch(/^ℹ pass 2$/m)
    const redress = join(project, 'node_modules/.bin/redress')
    await startedAndStopped(project, redress, ['start', '--app', 'redress/app.mjs', '--port', '0'])
  },
  TEST_MS_MAX,
)
