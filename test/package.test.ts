import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, delimiter, dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'

const CHECKOUT = join(import.meta.dirname, '..')
const NOT_COPIED = new Set(['.git', 'node_modules', 'dist', '.redress', 'coverage'])

/** What stands for the star in `redress/apps/*`. */
const APPS = ['fetchbox', 'pdf-xml', 'pdf-xml/gateway', 'proxx', 'proxx/cli', 'watermark']

interface Manifest {
  version: string
  scripts: Record<string, string>
  exports: Record<string, string | Record<string, string>>
  dependencies: Record<string, string>
}

const manifest: Manifest = JSON.parse(readFileSync(join(CHECKOUT, 'package.json'), 'utf8'))

let scratch: string
/** An empty project with the package in its node_modules, as `npm install` leaves it. */
let project: string
let installed: string

beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'redress-package-'))
  await copyCheckout(join(scratch, 'checkout'))
})

// One by one, so that each has the time of a hook: together they take long on a busy machine.
for (const step of stepsOf('prepack')) beforeAll(() => build(join(scratch, 'checkout'), step))

beforeAll(async () => {
  const tarball = await pack(join(scratch, 'checkout'))
  project = join(scratch, 'project')
  installed = join(project, 'node_modules/redress')
  await install(tarball)
})

afterAll(() => rm(scratch, { recursive: true, force: true }))

test('the package holds what was built, and no sources or tests', async () => {
  const files = await readdir(installed, { recursive: true })
  const top = new Set(files.map((file) => file.split('/')[0]))
  const expected = ['bin', 'dist', 'package.json', 'LICENSE', 'README.md', 'CHANGELOG.md', 'ARCHITECTURE.md', 'proto']
  expect([...top].filter((name) => !expected.includes(String(name)))).toEqual([])
  expect([...top]).toEqual(expect.arrayContaining(['bin', 'dist', 'package.json', 'LICENSE']))
  expect(files.filter((file) => /\.test\.|[^d]\.ts$/.test(file))).toEqual([])
  // The pages are built, and those who install it need nothing to show them.
  expect(files).toContain('dist/dashboard/index.html')
  // Whoever reads exported dead letters needs their schema.
  expect(files).toContain('proto/dead_letter_task.proto')
})

test('every public name can be imported where the package is installed', async () => {
  const program = publicNames()
    .map((name) => `console.log((await import('${name}')) && import.meta.resolve('${name}'))`)
    .join('\n')
  await writeFile(join(project, 'program.mjs'), program)
  const { stdout } = await run(process.execPath, ['program.mjs'])
  expect(stdout.trim().split('\n')).toEqual(publicNames().map(() => expect.stringContaining('/redress/dist/')))
})

test('every public name has types that a strict project can read', async () => {
  const imports = publicNames().map((name, i) => `export * as name${i} from '${name}'`)
  await writeFile(join(project, 'program.ts'), imports.join('\n'))
  const options = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2024', '--types', 'node']
  const tsc = join(CHECKOUT, 'node_modules/typescript/bin/tsc')
  const { code, stdout } = await run(process.execPath, [tsc, ...options, 'program.ts'])
  expect(stdout).toBe('')
  expect(code).toBe(0)
})

test('a system that ships with it finds its files where the package is installed', async () => {
  const program = `
    import { startGateway } from 'redress/apps/pdf-xml/gateway'
    const gateway = await startGateway({ parsers: 1 })
    const { mappings } = await (await fetch(gateway.url + '/mappings')).json()
    const schema = await (await fetch(gateway.url + '/schema/pdf-xml-1.xsd')).text()
    await gateway.stop()
    const { default: app } = await import('redress/apps/pdf-xml')
    console.log(JSON.stringify([app.name, mappings.map(({ name }) => name).sort(), schema.includes('urn:redress:pdf-xml:1')]))`
  await writeFile(join(project, 'gateway.mjs'), program)
  const { stdout } = await run(process.execPath, ['gateway.mjs'])
  expect(JSON.parse(stdout)).toEqual(['pdf-xml', ['invoice', 'layout', 'text'], true])
})

test('fetchbox finds the handler that ships with it where the package is installed', async () => {
  const program = `
    import { redress } from 'redress'
    import { loadHandlers } from './node_modules/redress/dist/apps/fetchbox/load-handlers.js'
    import fetchbox from 'redress/apps/fetchbox'
    const app = redress({ store: 'sqlite::memory:' })
    const log = { debug() {}, info() {}, warn() {}, error() {} }
    const installed = await fetchbox.install(app, { home: 'fetchbox-home', env: {}, log })
    console.log(JSON.stringify([app.types.sort(), [...(await loadHandlers(null)).keys()]]))
    await app.stop()
    await installed.stop()`
  await writeFile(join(project, 'fetchbox.mjs'), program)
  const { stdout } = await run(process.execPath, ['fetchbox.mjs'])
  const types = ['fetchbox.finalize', 'fetchbox.purge', 'fetchbox.resource', 'fetchbox.retention']
  expect(JSON.parse(stdout)).toEqual([types, ['sample']])
})

test('proxx brings its page and its commands along', async () => {
  const files = await readdir(join(installed, 'dist/apps/proxx/page/assets'))
  expect(files.toSorted()).toEqual(await readdir(join(CHECKOUT, 'apps/proxx/page/assets')))
  await writeFile(join(project, 'card.json'), '{"version":1}')
  const answer = await run('node_modules/.bin/redress', ['proxx', 'validate', 'card.json'], {
    path: dirname(process.execPath),
  })
  expect(answer).toMatchObject({ code: 2, stderr: expect.stringContaining('SPEC_INVALID') })
})

test('the command runs from an installed package', async () => {
  const answer = await run('node_modules/.bin/redress', ['--help'], { path: dirname(process.execPath) })
  expect(answer).toMatchObject({ code: 0, stderr: '', stdout: expect.stringContaining('redress') })
})

test('the command runs from a checkout, through links and in any folder, on the Node that the checkout brings', async () => {
  const links = await mkdtemp(join(scratch, 'links '))
  await symlink(join(CHECKOUT, 'bin/redress'), join(links, 'first'))
  await symlink('first', join(links, 'second'))
  const path = await fakeNode(`echo v20.20.2`)
  const answer = await run(join(links, 'second'), ['--help'], { path })
  expect(answer).toMatchObject({ code: 0, stderr: '', stdout: expect.stringContaining('redress') })
})

test.each(['v20.20.2', 'v24.12.0', 'v9.99.0', 'nonsense'])(
  'a Node that is too old (%s) is answered with one sentence',
  async (version) => {
    const answer = await run('node_modules/.bin/redress', ['--help'], { path: await fakeNode(`echo ${version}`) })
    expect(answer).toMatchObject({ code: 1, stdout: '' })
    expect(answer.stderr).toMatch(/^redress needs Node 24\.13 or newer .*nodejs\.org.*\.\n$/)
  },
)

test.each(['v24.13.0', 'v24.20.1', 'v25.0.0', 'v26.1.0'])(
  'the command becomes the Node that it finds (%s), so that signals reach it',
  async (version) => {
    const path = await fakeNode(`[ "$1" = --version ] && echo ${version} && exit; echo $$; printf '%s\\n' "$@"`)
    const { pid, stdout } = await run('node_modules/.bin/redress', ['jobs', 'a b', '*'], { path })
    const [nodePid, ...args] = stdout.trimEnd().split('\n')
    expect(Number(nodePid)).toBe(pid)
    expect(args.slice(-4)).toEqual([expect.stringMatching(/bin\/main\.mjs$/), 'jobs', 'a b', '*'])
  },
)

/** The commands that an npm script comes to. */
function stepsOf(script: string): string[] {
  return String(manifest.scripts[script])
    .split(' && ')
    .flatMap((command) => (command.startsWith('npm run ') ? stepsOf(command.replace('npm run ', '')) : [command]))
}

/** What is built is built in a copy, so that the checkout's own dist/ is left as it was. */
async function copyCheckout(copy: string): Promise<void> {
  await cp(CHECKOUT, copy, { recursive: true, filter: (source) => !NOT_COPIED.has(basename(source)) })
  await symlink(join(CHECKOUT, 'node_modules'), join(copy, 'node_modules'))
}

async function build(copy: string, step: string): Promise<void> {
  const answer = await run('sh', ['-c', step], { cwd: copy, path: join(copy, 'node_modules/.bin') })
  if (answer.code !== 0) throw new Error(`${step} failed:\n${answer.stdout}${answer.stderr}`)
}

async function pack(copy: string): Promise<string> {
  const options = ['pack', '--offline', '--ignore-scripts', '--pack-destination', scratch]
  const answer = await run('npm', options, { cwd: copy })
  if (answer.code !== 0) throw new Error(`npm pack failed:\n${answer.stdout}${answer.stderr}`)
  return join(scratch, `redress-${manifest.version}.tgz`)
}

/** What `npm install` would do, without a network: unpack, put the dependencies beside it, link the command. */
async function install(tarball: string): Promise<void> {
  const modules = join(project, 'node_modules')
  await mkdir(installed, { recursive: true })
  await mkdir(join(modules, '.bin'))
  await writeFile(join(project, 'package.json'), '{ "type": "module" }')
  await run('tar', ['-xzf', tarball, '--strip-components=1', '-C', installed])
  await symlink('../redress/bin/redress', join(modules, '.bin/redress'))
  for (const name of [...Object.keys(manifest.dependencies), '@types/node']) {
    await mkdir(dirname(join(modules, name)), { recursive: true })
    await symlink(join(CHECKOUT, 'node_modules', name), join(modules, name))
  }
}

function publicNames(): string[] {
  return Object.entries(manifest.exports)
    .filter(([, target]) => typeof target !== 'string')
    .flatMap(([name]) => (name === './apps/*' ? APPS.map((app) => `./apps/${app}`) : name))
    .map((name) => name.replace('.', 'redress'))
}

async function fakeNode(script: string): Promise<string> {
  const folder = await mkdtemp(join(scratch, 'node-'))
  await writeFile(join(folder, 'node'), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  return folder
}

interface Answer {
  pid: number | undefined
  code: number
  stdout: string
  stderr: string
}

function run(file: string, args: string[], { cwd = project, path = '' } = {}): Promise<Answer> {
  // What npm tells its scripts about this checkout would mislead the npm that packs the copy.
  const own = Object.entries(process.env).filter(([name]) => !/^npm_|^NODE_|^VITEST/i.test(name))
  const env = { ...Object.fromEntries(own), PATH: [path, process.env.PATH].filter(Boolean).join(delimiter) }
  return new Promise((resolve) => {
    const child = execFile(file, args, { cwd, env }, (error, stdout, stderr) => {
      resolve({ pid: child.pid, code: error === null ? 0 : Number(error.code), stdout, stderr })
    })
  })
}
