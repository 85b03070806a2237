import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * `node bench/import.ts`: packs redress, installs it and bullmq in empty projects, and compares what each brings and what
 * importing it costs. Needs the npm registry, and a few minutes.
 */
const BULLMQ = 'bullmq@6.7.0'
const ROUNDS = 15

const scratch = mkdtempSync(join(tmpdir(), 'redress-import-'))
const npm = (cwd: string, ...args: string[]) => execFileSync('npm', args, { cwd, stdio: ['ignore', 'pipe', 'ignore'] })

/** Prints the milliseconds of the import, those of the processor, and the megabytes of memory afterwards. */
const PROGRAM = `
  const [startMs, before] = [performance.now(), process.cpuUsage()]
  await import(process.argv[2])
  const [ms, { user, system }] = [performance.now() - startMs, process.cpuUsage(before)]
  globalThis.gc()
  const { rss, heapUsed } = process.memoryUsage()
  console.log(JSON.stringify([ms, (user + system) / 1_000, rss / 2 ** 20, heapUsed / 2 ** 20]))`

function project(name: string, source: string): string {
  const folder = join(scratch, name)
  mkdirSync(folder)
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
  writeFileSync(join(folder, 'program.js'), PROGRAM)
  npm(folder, 'install', '--no-audit', '--no-fund', source)
  return folder
}

function measured(folder: string, name: string): number[] {
  const args = ['--expose-gc', 'program.js', name]
  return JSON.parse(execFileSync(process.execPath, args, { cwd: folder, encoding: 'utf8' }))
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] as number

try {
  const source = join(import.meta.dirname, '../packages/redress')
  npm(source, 'pack', '--pack-destination', scratch)
  const tarball = readdirSync(scratch).find((name) => name.endsWith('.tgz')) as string
  const projects = [
    { name: 'redress', folder: project('redress', join(scratch, tarball)) },
    { name: 'bullmq', folder: project('bullmq', BULLMQ) },
  ]
  const runs = new Map(projects.map(({ name }) => [name, [] as number[][]]))
  // In turns, so that a busy moment of the machine does not fall on one of them alone.
  for (let round = 0; round < ROUNDS; round++) {
    for (const { name, folder } of projects) runs.get(name)?.push(measured(folder, name))
  }
  for (const { name, folder } of projects) {
    const column = (at: number) => median((runs.get(name) ?? []).map((run) => run[at] as number)).toFixed(1)
    const packages = npm(folder, 'ls', '--all', '--parseable').toString().trim().split('\n').length - 1
    const megabytes = Number.parseInt(
      execFileSync('du', ['-sk', 'node_modules'], { cwd: folder, encoding: 'utf8' }),
      10,
    )
    console.log(
      `${name.padEnd(8)} ${packages} packages, ${(megabytes / 1024).toFixed(1)} MB on disk; import: ${column(0)} ms, ` +
        `${column(1)} ms of the processor, ${column(2)} MB of memory, ${column(3)} MB of heap`,
    )
  }
} finally {
  rmSync(scratch, { recursive: true, force: true })
}
