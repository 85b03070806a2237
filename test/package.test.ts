import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { cp, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import {
  type Answer,
  CHECKOUT,
  environment,
  linkFromCheckout,
  type Manifest,
  PACKAGES,
  projectWith,
  run as runIn,
} from './support/run/packing.ts'
import { PACKING_MS_MAX, packedPackages } from './support/run/shared-servers.ts'
import { linesWithError, TYPE_PROGRAMS } from './support/type-programs.ts'

let scratch: string
/** An empty project with the packages in its node_modules, as `npm install` leaves them. */
let project: string
let installed: string

beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'redress-package-'))
  project = await projectWith(await packedPackages())
  installed = join(project, 'node_modules/redress')
}, PACKING_MS_MAX)

afterAll(async () => {
  await rm(scratch, { recursive: true, force: true })
  await rm(project, { recursive: true, force: true })
})

const run = (file: string, args: string[], options: { cwd?: string; path?: string } = {}): Promise<Answer> =>
  runIn(file, args, { cwd: project, ...options })

test('the package holds what was built, and no sources or tests', async () => {
  const files = await readdir(installed, { recursive: true })
  const top = new Set(files.map((file) => file.split('/')[0]))
  const expected = ['bin', 'dist', 'package.json', 'LICENSE', 'README.md', 'proto']
  expect([...top].filter((name) => !expected.includes(String(name)))).toEqual([])
  expect([...top]).toEqual(expect.arrayContaining(['bin', 'dist', 'package.json', 'LICENSE', 'README.md']))
  expect(files.filter((file) => /\.test\.|[^d]\.ts$/.test(file))).toEqual([])
  // The pages are built, and those who install it need nothing to show them.
  expect(files).toContain('dist/dashboard/index.html')
  // Whoever reads exported dead letters needs their schema.
  expect(files).toContain('proto/dead_letter_task.proto')
})

test('redress with its server and dashboard installs at most 60 packages and 40 MB', async () => {
  const folders = await closureOf(installed)
  const sizes = await Promise.all([...folders].map(diskBytes))
  const megabytes = sizes.reduce((sum, bytes) => sum + bytes, 0) / 2 ** 20
  expect(folders.size).toBeLessThanOrEqual(60)
  expect(megabytes).toBeLessThanOrEqual(40)
})

const MISSING_PEERS = [
  [
    'an s3: store',
    `const { artifactStore } = await import('redress/artifacts')
     await artifactStore({ url: 's3://bucket/?region=eu-central-1', credentials: { accessKeyId: 'a', secretAccessKey: 'b' } })`,
    /^@aws-sdk\//,
  ],
  [
    'an app that keeps its files in S3',
    `const { spawnSync } = await import('node:child_process')
     const keys = { AWS_ACCESS_KEY_ID: 'a', AWS_SECRET_ACCESS_KEY: 'b' }
     const env = { ...process.env, ...keys, UPLOADS_DIR: 's3://bucket/?region=eu-central-1' }
     const args = ['start', '--apps', 'pdf-xml', '--json', '--port', '0', '--data', 'bucket']
     throw JSON.parse(spawnSync('node_modules/.bin/redress', args, { env, encoding: 'utf8' }).stderr).error`,
    /^@aws-sdk\//,
  ],
  [
    'the export of traces',
    `const { spawnSync } = await import('node:child_process')
     const env = { ...process.env, OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' }
     const args = ['worker', '--apps', 'sample', '--json', '--data', 'traces']
     throw JSON.parse(spawnSync('node_modules/.bin/redress', args, { env, encoding: 'utf8' }).stderr).error`,
    /^@opentelemetry\//,
  ],
] as const

test.each(MISSING_PEERS)('%s without its packages is refused with the command that installs them', async (...given) => {
  const [, use, names] = given
  const report = 'console.log(JSON.stringify([error.code, error.action]))'
  await writeFile(join(project, 'peers.mjs'), `try { ${use} } catch (error) { ${report} }`)
  const { stdout } = await run(process.execPath, ['peers.mjs'])
  const peers = Object.entries(PACKAGES[0]?.manifest.peerDependencies ?? {})
    .filter(([name]) => names.test(name))
    .map(([name, range]) => `${name}@${range.replace('^', '')}`)
  expect(peers).not.toEqual([])
  expect(JSON.parse(stdout)).toEqual(['PACKAGE_MISSING', `Run \`npm install ${peers.join(' ')}\`.`])
})

test('importing redress loads no package but croner: zod is a part of the build', async () => {
  const program = `
    import { registerHooks } from 'node:module'
    const loaded = new Set()
    registerHooks({
      load(url, context, next) {
        loaded.add(/.*\\/node_modules\\/((?:@[^/]+\\/)?[^/]+)/.exec(url)?.[1] ?? url)
        return next(url, context)
      },
    })
    await import('redress')
    console.log(JSON.stringify([...loaded].filter((name) => !name.startsWith('node:'))))`
  await writeFile(join(project, 'loaded.mjs'), program)
  const { stdout } = await run(process.execPath, ['loaded.mjs'])
  expect(JSON.parse(stdout).sort()).toEqual(['croner', 'redress'])
})

test('every public name can be imported where the package is installed', async () => {
  const program = publicNames()
    .map((name) => `console.log((await import('${name}')) && import.meta.resolve('${name}'))`)
    .join('\n')
  await writeFile(join(project, 'program.mjs'), program)
  const { stdout } = await run(process.execPath, ['program.mjs'])
  expect(stdout.trim().split('\n')).toEqual(
    publicNames().map(() => expect.stringMatching(/\/node_modules\/(redress|@redress\/[a-z-]+)\/dist\//)),
  )
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

test('no public name of redress makes a project compile the types of zod', async () => {
  const names = publicNames().filter((name) => !name.startsWith('@'))
  await writeFile(join(project, 'program.ts'), names.map((name) => `import '${name}'`).join('\n'))
  const options = ['--noEmit', '--module', 'nodenext', '--target', 'es2024', '--types', 'node', '--listFilesOnly']
  const tsc = join(CHECKOUT, 'node_modules/typescript/bin/tsc')
  const { stdout } = await run(process.execPath, [tsc, ...options, 'program.ts'])
  expect(stdout).toContain('redress/dist/index.d.ts')
  expect(stdout.split('\n').filter((file) => file.includes('/zod/'))).toEqual([])
})

const COMPILERS = [
  ['TypeScript 7', 'node_modules/typescript/bin/tsc'],
  ['TypeScript 5.9', 'scripts/node_modules/typescript/bin/tsc'],
] as const
const RESOLUTIONS = [
  ['node16', 'node16'],
  ['nodenext', 'nodenext'],
  ['esnext', 'bundler'],
] as const

describe.each(COMPILERS)('with %s', (_name, tsc) => {
  test.each(RESOLUTIONS)(
    'programs that use results, codes and shared job types compile, and wrong ones do not (module %s, resolution %s)',
    async (module, moduleResolution) => {
      const folder = await mkdtemp(join(project, 'types-'))
      for (const [name, program] of Object.entries(TYPE_PROGRAMS)) await writeFile(join(folder, name), program)
      const options = ['--noEmit', '--strict', '--target', 'es2024', '--types', 'node', '--pretty', 'false']
      const kind = ['--module', module, '--moduleResolution', moduleResolution]
      const files = Object.keys(TYPE_PROGRAMS)
      const { stdout } = await run(process.execPath, [join(CHECKOUT, tsc), ...options, ...kind, ...files], {
        cwd: folder,
      })
      const found = [...stdout.matchAll(/^(\S+?)\((\d+),\d+\): error TS\d+/gm)].map(
        ([, file, line]) => `${file}:${line}`,
      )
      const expected = files.flatMap((file) =>
        linesWithError(TYPE_PROGRAMS[file] ?? '').map((line) => `${file}:${line}`),
      )
      expect([...new Set(found)].sort(), stdout).toEqual(expected.sort())
    },
  )
})

test('a system that ships with it finds its files where the package is installed', async () => {
  const program = `
    import { startGateway } from '@redress/pdf-xml/gateway'
    const gateway = await startGateway({ parsers: 1 })
    const { mappings } = await (await fetch(gateway.url + '/mappings')).json()
    const schema = await (await fetch(gateway.url + '/schema/pdf-xml-1.xsd')).text()
    await gateway.stop()
    const { default: app } = await import('@redress/pdf-xml')
    console.log(JSON.stringify([app.name, mappings.map(({ name }) => name).sort(), schema.includes('urn:redress:pdf-xml:1')]))`
  await writeFile(join(project, 'gateway.mjs'), program)
  const { stdout } = await run(process.execPath, ['gateway.mjs'])
  expect(JSON.parse(stdout)).toEqual(['pdf-xml', ['invoice', 'layout', 'text'], true])
})

test('fetchbox finds the handler that ships with it where the package is installed', async () => {
  const program = `
    import { redress } from 'redress'
    import { loadHandlers } from './node_modules/@redress/fetchbox/dist/job-handlers.js'
    import fetchbox from '@redress/fetchbox'
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

test('the guide to threads and processes works word by word where the package is installed', async () => {
  const guide = await readFile(join(CHECKOUT, 'docs/guides/jobs/isolation.md'), 'utf8')
  const files = [...guide.matchAll(/Save this as `([^`]+)`:\n\n```ts\n(.*?)^```/gms)]
  expect(files.map(([, name]) => name)).toEqual(['primes.ts', 'main.ts'])
  for (const [, name = '', text = ''] of files) await writeFile(join(project, name), text)
  const shown = /^```sh\nnode main\.ts\n```\n\n```\n(.*?)^```/ms.exec(guide)?.[1]
  const { stdout, stderr } = await run(process.execPath, ['main.ts'])
  expect({ stdout, stderr }).toMatchObject({ stdout: shown })
})

test('the compiled file is found by the name of its source where the package is installed', async () => {
  await writeFile(join(project, 'triple.js'), 'export default (input) => input * 3')
  const program = `
    import { inProcess, inThread, redress } from 'redress'
    const app = redress({ store: 'sqlite::memory:' })
    const thread = app.job('thread', { run: inThread('./triple.ts', { memoryMb: 64 }) })
    const child = app.job('child', { run: inProcess(new URL('./triple.ts', import.meta.url), { permissions: {} }) })
    await app.work()
    console.log(await thread.submitAndWait(5), await child.submitAndWait(7))
    await app.stop()`
  await writeFile(join(project, 'isolated.mjs'), program)
  const { stdout, stderr } = await run(process.execPath, ['isolated.mjs'])
  expect({ stdout, stderr }).toMatchObject({ stdout: '15 21\n' })
})

test('an app that is installed beside redress is served by its name, and answers requests', async () => {
  const server = spawn(
    'node_modules/.bin/redress',
    ['start', '--apps', 'pdf-xml', '--port', '0', '--no-auth', '--json'],
    {
      cwd: project,
      env: environment(dirname(process.execPath)),
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  onTestFinished(() => void server.kill('SIGKILL'))
  const [line] = await once(createInterface({ input: server.stdout }), 'line')
  const { url, types } = JSON.parse(line as string) as { url: string; types: string[] }
  expect(types).toContain('pdf.convert')
  // The schemas of the app are made by its own copy of zod, and read by that of the server.
  const { paths } = JSON.parse(await (await fetch(`${url}/openapi.json`)).text())
  const schema = paths['/api/pdf-xml/jobs/{id}'].get.responses['200'].content['application/json'].schema
  expect(schema.properties.job.properties.bytes).toEqual({ type: 'number' })
  const page = await fetch(`${url}/convert`)
  expect([page.status, await page.text()]).toEqual([200, expect.stringContaining('PDF')])
  const upload = await fetch(`${url}/api/upload`, { method: 'POST' })
  expect(upload.status).toBeGreaterThanOrEqual(400)
  server.kill('SIGTERM')
  expect((await once(server, 'exit'))[0]).toBe(0)
})

test('without its package, an app and its commands are refused with the command that installs it', async () => {
  const bare = await mkdtemp(join(scratch, 'bare-'))
  await cp(installed, join(bare, 'node_modules/redress'), { recursive: true })
  const { dependencies = {} } = PACKAGES[0]?.manifest ?? {}
  for (const name of Object.keys(dependencies)) await linkFromCheckout(join(bare, 'node_modules'), name)
  const redress = (...args: string[]) =>
    run('node_modules/redress/bin/redress', args, { cwd: bare, path: dirname(process.execPath) })
  expect(await redress('start', '--apps', 'pdf-xml')).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/^PACKAGE_MISSING: .*\n.*`npm install @redress\/pdf-xml`/),
  })
  expect(await redress('proxx', 'validate', 'card.json')).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/^USAGE: There is no command "proxx"\.\n.*`npm install @redress\/proxx`/),
  })
})

test('proxx brings its page and its commands along', async () => {
  const files = await readdir(join(project, 'node_modules/@redress/proxx/dist/page/assets'))
  expect(files.toSorted()).toEqual(await readdir(join(CHECKOUT, 'apps/proxx/src/page/assets')))
  await writeFile(join(project, 'card.json'), '{"version":1}')
  const path = dirname(process.execPath)
  const answer = await run('node_modules/.bin/redress', ['proxx', 'validate', 'card.json'], { path })
  expect(answer).toMatchObject({ code: 2, stderr: expect.stringContaining('SPEC_INVALID') })
  // The package's own command is the same.
  const own = await run('node_modules/.bin/proxx', ['validate', 'card.json'], { path })
  expect(own).toMatchObject({ code: 2, stderr: expect.stringContaining('SPEC_INVALID') })
  const gateway = await run('node_modules/.bin/pdf-xml-gateway', ['--help'], { path })
  expect(gateway).toMatchObject({ code: 0, stdout: expect.stringContaining('Usage: redress gateway') })
})

test('the command runs from an installed package', async () => {
  const answer = await run('node_modules/.bin/redress', ['--help'], { path: dirname(process.execPath) })
  expect(answer).toMatchObject({ code: 0, stderr: '', stdout: expect.stringContaining('redress') })
})

test('the command runs from a checkout, through links and in any folder, on the Node that the checkout brings', async () => {
  const links = await mkdtemp(join(scratch, 'links '))
  await symlink(join(CHECKOUT, 'packages/redress/bin/redress'), join(links, 'first'))
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

/** The folders of a package and of all that it depends on, each found as Node finds it from its dependent. */
async function closureOf(folder: string, found = new Set<string>()): Promise<Set<string>> {
  if (found.has(folder)) return found
  found.add(folder)
  const { dependencies = {} }: Manifest = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'))
  for (const name of Object.keys(dependencies)) {
    // The packed package has no dependencies beside it but links: those of the checkout are the same.
    const from = folder === installed ? CHECKOUT : folder
    await closureOf(folderOf(name, from), found)
  }
  return found
}

function folderOf(name: string, from: string): string {
  const folder = join(from, 'node_modules', name)
  if (existsSync(folder)) return folder
  if (dirname(from) === from) throw new Error(`${name} is not installed`)
  return folderOf(name, dirname(from))
}

const BLOCK_BYTES = 4096

/** As a file system with usual blocks keeps it, without the packages inside of it. */
async function diskBytes(folder: string): Promise<number> {
  let bytes = BLOCK_BYTES
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) bytes += entry.name === 'node_modules' ? 0 : await diskBytes(path)
    else if (entry.isFile()) bytes += Math.ceil((await stat(path)).size / BLOCK_BYTES) * BLOCK_BYTES
  }
  return bytes
}

/** A pattern such as './*' names files that only the apps know. */
function publicNames(): string[] {
  return PACKAGES.flatMap(({ manifest }) =>
    Object.entries(manifest.exports)
      .filter(([name, target]) => typeof target !== 'string' && !name.includes('*'))
      .map(([name]) => name.replace('.', manifest.name)),
  )
}

async function fakeNode(script: string): Promise<string> {
  const folder = await mkdtemp(join(scratch, 'node-'))
  await writeFile(join(folder, 'node'), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  return folder
}
