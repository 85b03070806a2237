import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { type PROGRAM_SOURCES, ROOT } from './program-sources.ts'

const CACHE = join(ROOT, 'node_modules/.cache/programs')
const SOURCES = ['packages/redress/src', 'packages/redress/test', 'apps', 'bench', 'test', 'package-lock.json']
const KEPT_MS = 86_400_000

export type ProgramName = keyof typeof PROGRAM_SOURCES

let folder: string | null = null

/**
 * A program in one file: most of what a short life costs would otherwise be the loading of its few hundred modules.
 * Made when it is first needed, and again when a source has changed.
 */
export function programFile(name: ProgramName): string {
  folder ??= bundled()
  return join(folder, `${name}.js`)
}

/** What `bench/kill-loop` is to start and kill. */
export const killedPrograms = () => ({
  worker: programFile('kill-worker'),
  submitter: programFile('kill-submitter'),
})

function bundled(): string {
  const made = join(CACHE, versionOfSources())
  if (existsSync(made)) return made
  forgetOld()
  // Other test files may need them at the same moment: who is done first names the folder.
  const own = `${made}.${process.pid}`
  const script = join(import.meta.dirname, 'bundle-programs.ts')
  execFileSync(process.execPath, ['--conditions=redress-source', script, own], { stdio: 'inherit' })
  try {
    renameSync(own, made)
  } catch (error) {
    if (!existsSync(made)) throw error
    rmSync(own, { recursive: true })
  }
  return made
}

function versionOfSources(): string {
  const newestMs = Math.max(...SOURCES.map((path) => changedMs(join(ROOT, path))))
  return createHash('sha256').update(`${ROOT} ${newestMs}`).digest('hex').slice(0, 16)
}

function changedMs(path: string): number {
  const stats = statSync(path)
  if (!stats.isDirectory()) return stats.mtimeMs
  const inside = readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.name.endsWith('.ts'))
    .map(({ parentPath, name }) => statSync(join(parentPath, name)).mtimeMs)
  return Math.max(...inside)
}

function forgetOld(): void {
  if (!existsSync(CACHE)) return
  for (const name of readdirSync(CACHE)) {
    const path = join(CACHE, name)
    if (Date.now() - statSync(path).mtimeMs > KEPT_MS) rmSync(path, { recursive: true, force: true })
  }
}
