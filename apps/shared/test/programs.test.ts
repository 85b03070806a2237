import { execFile } from 'node:child_process'
import {
  accessSync,
  chmodSync,
  chownSync,
  constants,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeEach, expect, onTestFinished, test } from 'vitest'

const ROOT = join(import.meta.dirname, '../../..')
const FINDER = join(import.meta.dirname, 'find-programs.ts')
const OTHER = 65_534
const MACHINE = `${process.platform}-${process.arch}`

beforeEach(({ skip }) => {
  if (process.geteuid?.() !== 0) skip('only root can start a process of another user')
  const isOpen = ROOT.split('/').every((_, at, parts) => {
    const folder = parts.slice(0, at + 1).join('/') || '/'
    return (statSync(folder).mode & 0o005) === 0o005
  })
  if (!isOpen) skip(`another user cannot read ${ROOT}`)
})

/** A package as npm unpacks it for root: every user may read the program, and only root may execute it. */
function bundle(): { folder: string; ffprobe: string; home: string } {
  const folder = mkdtempSync(join(tmpdir(), 'redress-bundle-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  chmodSync(folder, 0o755)
  for (const [name, program, mode] of [
    [`@ffmpeg-binary/${MACHINE}`, 'ffmpeg', 0o755],
    ['@ffprobe-installer/ffprobe', '', 0],
    [`@ffprobe-installer/${MACHINE}`, 'ffprobe', 0o744],
  ] as const) {
    const place = join(folder, 'node_modules', name)
    mkdirSync(place, { recursive: true })
    writeFileSync(join(place, 'package.json'), '{}')
    if (program === '') continue
    writeFileSync(join(place, program), `#!/bin/sh\necho "${program} version 7.bundled"\n`)
    chmodSync(join(place, program), mode)
  }
  const home = join(folder, 'home')
  mkdirSync(home, { mode: 0o700 })
  chownSync(home, OTHER, OTHER)
  return { folder, ffprobe: join(folder, 'node_modules/@ffprobe-installer', MACHINE, 'ffprobe'), home }
}

interface Found {
  ffprobe?: { path: string; version: string }
  code?: string
  message?: string
  detail?: string
}

/** Looks for the programs as another user. */
async function findAsOther(packagesFrom: string | undefined, env: Record<string, string>): Promise<Found> {
  const options = ['--conditions=redress-source', '--disable-warning=ExperimentalWarning']
  const { stdout } = await promisify(execFile)(process.execPath, [...options, FINDER, packagesFrom ?? ''], {
    uid: OTHER,
    gid: OTHER,
    cwd: '/',
    env,
  })
  return JSON.parse(stdout) as Found
}

test('a service user runs the ffprobe that comes with the package, though npm lets only its installer execute it', async () => {
  const { home } = bundle()
  const found = await findAsOther(undefined, { HOME: home })
  // On a machine for which there is no build, there is nothing to be found.
  if (found.code !== undefined) return expect(found.detail).toContain('nor in an npm package')
  expect(found.ffprobe?.version).toMatch(/\S/)
})

test('a copy is made once, by any number of processes at once, and belongs to the user alone', async () => {
  const { folder, home } = bundle()
  const look = () => findAsOther(join(folder, 'x.js'), { HOME: home })
  const all = await Promise.all([look(), look(), look(), look()])
  const cache = join(home, '.cache/redress/programs')
  const [copy = ''] = readdirSync(cache)
  for (const found of all) expect(found.ffprobe).toEqual({ path: join(cache, copy), version: '7.bundled' })
  const made = statSync(join(cache, copy))
  expect([readdirSync(cache).length, made.uid, made.mode & 0o777]).toEqual([1, OTHER, 0o700])
  expect(statSync(cache).mode & 0o077).toBe(0)
  await look()
  expect(statSync(join(cache, copy)).mtimeMs).toBe(made.mtimeMs)
})

test('another version of the program is copied anew, and a damaged copy is replaced', async () => {
  const { folder, ffprobe, home } = bundle()
  const look = async () => (await findAsOther(join(folder, 'x.js'), { HOME: home })).ffprobe
  const first = await look()
  writeFileSync(String(first?.path), 'cut')
  expect((await look())?.version).toBe('7.bundled')
  writeFileSync(ffprobe, '#!/bin/sh\necho "ffprobe version 8.bundled"\n')
  expect((await look())?.version).toBe('8.bundled')
})

test('a service without a home uses a folder of its own beside other temporary files', async () => {
  const { folder } = bundle()
  const temporary = join(folder, 'tmp')
  mkdirSync(temporary)
  chmodSync(temporary, 0o1777)
  const { ffprobe } = await findAsOther(join(folder, 'x.js'), { HOME: '/nonexistent', TMPDIR: temporary })
  expect(ffprobe?.path).toContain(join(temporary, `redress-programs-${OTHER}`))
})

test.each([
  ['a folder of somebody else', (path: string) => mkdirSync(path, { mode: 0o777 })],
  ['a link', (path: string) => symlinkSync('/var', path)],
])('what was put in the way beforehand is not used: %s', async (_what, put) => {
  const { folder, ffprobe } = bundle()
  const temporary = join(folder, 'tmp')
  mkdirSync(temporary)
  chmodSync(temporary, 0o1777)
  put(join(temporary, `redress-programs-${OTHER}`))
  const found = await findAsOther(join(folder, 'x.js'), { HOME: '/nonexistent', TMPDIR: temporary })
  expect(found.code).toBe('PROGRAM_MISSING')
  expect(found.detail).toContain(`${ffprobe} may not be executed by user ${OTHER} (mode 0744, owner 0)`)
  expect(found.detail).toContain('belongs to another user')
  expect(found.detail).not.toContain('npm package')
})

test('a folder that others can write to holds no program', async () => {
  const { folder } = bundle()
  const open = join(folder, 'open')
  mkdirSync(open)
  chmodSync(open, 0o777)
  const found = await findAsOther(join(folder, 'x.js'), { XDG_CACHE_HOME: open, TMPDIR: '/nonexistent' })
  expect(found.detail).toContain(`${open} can be changed by others`)
})

test('a configured program that is not executable is reported as such', async () => {
  const { ffprobe, home } = bundle()
  const found = await findAsOther(undefined, { HOME: home, FFPROBE_PATH: ffprobe, FFMPEG_PATH: '/bin/echo' })
  expect(found.code).toBe('PROGRAM_MISSING')
  const { detail } = await findAsOther(undefined, { HOME: home, FFPROBE_PATH: ffprobe })
  expect(detail).toContain(`FFPROBE_PATH is ${ffprobe}, which may not be executed by user ${OTHER}`)
  expect(() => accessSync(ffprobe, constants.X_OK)).not.toThrow()
  expect(existsSync(join(home, '.cache'))).toBe(false)
})
