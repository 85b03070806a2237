import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, delimiter, dirname, join } from 'node:path'

/** The packages of this repository as they are published: built, packed, and installed in a project. */

export const CHECKOUT = join(import.meta.dirname, '../../..')
const NOT_COPIED = new Set(['.git', 'node_modules', 'dist', '.redress', 'coverage'])

export interface Manifest {
  name: string
  version: string
  scripts: Record<string, string>
  exports: Record<string, string | Record<string, string>>
  dependencies?: Record<string, string>
  peerDependencies?: Record<string, string>
  bin?: Record<string, string>
}

interface Package {
  /** From the checkout's root. */
  folder: string
  manifest: Manifest
}

/** In the order in which they are built: each needs those before it. */
export const PACKAGES: readonly Package[] = [
  'packages/redress',
  'apps/shared',
  'apps/pdf-xml',
  'apps/watermark',
  'apps/fetchbox',
  'apps/proxx',
].map((folder) => ({ folder, manifest: JSON.parse(readFileSync(join(CHECKOUT, folder, 'package.json'), 'utf8')) }))

/** The tarball of a package in the folder that `packPackages` returns. */
export function tarballOf(folder: string, name: string): string {
  const { version } = (PACKAGES.find(({ manifest }) => manifest.name === name) as Package).manifest
  return join(folder, `${name.replace('@', '').replace('/', '-')}-${version}.tgz`)
}

/** Builds and packs all packages, and returns the folder with their tarballs. */
export async function packPackages(): Promise<string> {
  const scratch = await mkdtemp(join(tmpdir(), 'redress-packages-'))
  const copy = join(scratch, 'checkout')
  await copyCheckout(copy)
  for (const one of PACKAGES) {
    for (const step of stepsOf(one.manifest, 'prepack')) await build(join(copy, one.folder), step)
    const options = ['pack', '--offline', '--ignore-scripts', '--pack-destination', scratch]
    const answer = await run('npm', options, { cwd: join(copy, one.folder) })
    if (answer.code !== 0) throw new Error(`npm pack failed:\n${answer.stdout}${answer.stderr}`)
  }
  await rm(copy, { recursive: true })
  return scratch
}

/** An empty project with the packed packages in its node_modules, as `npm install` leaves them. */
export async function projectWith(tarballs: string): Promise<string> {
  const project = await mkdtemp(join(tmpdir(), 'redress-project-'))
  await mkdir(join(project, 'node_modules/.bin'), { recursive: true })
  await writeFile(join(project, 'package.json'), '{ "type": "module" }')
  for (const { manifest } of PACKAGES) await install(project, manifest, tarballOf(tarballs, manifest.name))
  return project
}

/** The commands that an npm script comes to. */
function stepsOf(manifest: Manifest, script: string): string[] {
  return String(manifest.scripts[script])
    .split(' && ')
    .flatMap((command) =>
      command.startsWith('npm run ') ? stepsOf(manifest, command.replace('npm run ', '')) : [command],
    )
}

/** The packages are built in a copy, so that the checkout's own dist/ folders are left as they were. */
async function copyCheckout(copy: string): Promise<void> {
  await cp(CHECKOUT, copy, { recursive: true, filter: (source) => !NOT_COPIED.has(basename(source)) })
  // The workspace's packages must be those of the copy; all others are the checkout's.
  const modules = join(copy, 'node_modules')
  await mkdir(join(modules, '@redress'), { recursive: true })
  for (const name of await readdir(join(CHECKOUT, 'node_modules'))) {
    if (name === 'redress' || name === '@redress') continue
    await symlink(join(CHECKOUT, 'node_modules', name), join(modules, name))
  }
  for (const { folder, manifest } of PACKAGES) await symlink(join(copy, folder), join(modules, manifest.name))
}

async function build(folder: string, step: string): Promise<void> {
  const answer = await run('sh', ['-c', step], { cwd: folder, path: join(CHECKOUT, 'node_modules/.bin') })
  if (answer.code !== 0) throw new Error(`${step} failed:\n${answer.stdout}${answer.stderr}`)
}

/** What `npm install` would do, without a network: unpack, put the dependencies beside it, link the command. */
async function install(project: string, manifest: Manifest, tarball: string): Promise<void> {
  const modules = join(project, 'node_modules')
  const folder = join(modules, manifest.name)
  await mkdir(folder, { recursive: true })
  await run('tar', ['-xzf', tarball, '--strip-components=1', '-C', folder], { cwd: project })
  for (const [name, file] of Object.entries(manifest.bin ?? {})) {
    await symlink(join('..', manifest.name, file), join(modules, '.bin', name))
  }
  for (const name of [...Object.keys(manifest.dependencies ?? {}), '@types/node']) {
    if (!name.startsWith('@redress/')) await linkFromCheckout(modules, name)
  }
}

export async function linkFromCheckout(modules: string, name: string): Promise<void> {
  if (existsSync(join(modules, name))) return
  await mkdir(dirname(join(modules, name)), { recursive: true })
  await symlink(join(CHECKOUT, 'node_modules', name), join(modules, name))
}

export interface Answer {
  pid: number | undefined
  code: number
  stdout: string
  stderr: string
}

/** What npm tells its scripts about this checkout would mislead the npm that packs the copy. */
export function environment(path: string): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(([name]) => !/^npm_|^NODE_(?!EXTRA_CA_CERTS)|^VITEST/i.test(name))
  return { ...Object.fromEntries(own), PATH: [path, process.env.PATH].filter(Boolean).join(delimiter) }
}

export function run(file: string, args: string[], { cwd, path = '' }: { cwd: string; path?: string }): Promise<Answer> {
  return new Promise((resolve) => {
    const child = execFile(file, args, { cwd, env: environment(path) }, (error, stdout, stderr) => {
      resolve({ pid: child.pid, code: error === null ? 0 : Number(error.code), stdout, stderr })
    })
  })
}
