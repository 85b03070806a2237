import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * `node bench/import.ts`: packs redress, installs it and bullmq in empty projects, and compares what each brings, what
 * importing it costs, and how long the TypeScript compiler takes for a small program. Needs the npm registry, and a few
 * minutes.
 */
const BULLMQ = 'bullmq@6.7.0'
const TYPES_OF_NODE = '@types/node@24'
const COMPILERS = ['typescript@5.9', 'typescript@7']
const ROUNDS = 15

const scratch = mkdtempSync(join(tmpdir(), 'redress-import-'))
const npm = (cwd: string, ...args: string[]) => execFileSync('npm', args, { cwd, stdio: ['ignore', 'pipe', 'ignore'] })
const install = (cwd: string, ...packages: string[]) => npm(cwd, 'install', '--no-audit', '--no-fund', ...packages)

/** Prints the milliseconds of the import, those of the processor, and the megabytes of memory afterwards. */
const PROGRAM = `
  const [startMs, before] = [performance.now(), process.cpuUsage()]
  await import(process.argv[2])
  const [ms, { user, system }] = [performance.now() - startMs, process.cpuUsage(before)]
  globalThis.gc()
  const { rss, heapUsed } = process.memoryUsage()
  console.log(JSON.stringify([ms, (user + system) / 1_000, rss / 2 ** 20, heapUsed / 2 ** 20]))`

/** One job type, a worker and a submission. */
const HELLO = {
  redress: `
    import { redress } from 'redress'
    const app = redress()
    const hello = app.job('hello', { run: async ({ name }: { name: string }) => ({ said: \`Hello \${name}\` }) })
    await app.work()
    const { id } = await hello.submit({ name: 'Ann' })
    console.log(id)`,
  bullmq: `
    import { Queue, Worker } from 'bullmq'
    const connection = { host: '127.0.0.1' }
    new Worker('hello', async (job: { data: { name: string } }) => ({ said: \`Hello \${job.data.name}\` }), { connection })
    const hello = new Queue<{ name: string }>('hello', { connection })
    const { id } = await hello.add('hello', { name: 'Ann' })
    console.log(id)`,
}
type Name = keyof typeof HELLO

/** As `tsc --init` has it, except that the types of packages are checked, too. */
const TSCONFIG = {
  compilerOptions: {
    target: 'es2024',
    module: 'nodenext',
    strict: true,
    noEmit: true,
    types: ['node'],
    skipLibCheck: false,
  },
  files: ['hello.ts'],
}

interface Project {
  name: Name
  folder: string
  packages: number
  megabytes: number
}

function project(name: Name, source: string): Project {
  const folder = join(scratch, name)
  mkdirSync(folder)
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
  writeFileSync(join(folder, 'program.js'), PROGRAM)
  writeFileSync(join(folder, 'hello.ts'), HELLO[name])
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(TSCONFIG))
  install(folder, source)
  const packages = npm(folder, 'ls', '--all', '--parseable').toString().trim().split('\n').length - 1
  const kilobytes = Number.parseInt(execFileSync('du', ['-sk', 'node_modules'], { cwd: folder, encoding: 'utf8' }), 10)
  // After the packages are counted: a project has these whichever library it uses.
  install(folder, TYPES_OF_NODE)
  return { name, folder, packages, megabytes: kilobytes / 1024 }
}

function imported({ folder, name }: Project): number[] {
  const args = ['--expose-gc', 'program.js', name]
  return JSON.parse(execFileSync(process.execPath, args, { cwd: folder, encoding: 'utf8' }))
}

/** Its path, and the version that it is. */
function compiler(source: string): { tsc: string; version: string } {
  const folder = join(scratch, source)
  mkdirSync(folder)
  install(folder, source)
  const home = join(folder, 'node_modules/typescript')
  const { version, bin } = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8'))
  return { tsc: join(home, bin.tsc), version }
}

function compiled({ folder }: Project, tsc: string): number[] {
  const startMs = performance.now()
  execFileSync(process.execPath, [tsc], { cwd: folder })
  return [performance.now() - startMs]
}

/** The median of each column. In turns, so that a busy moment of the machine does not fall on one project alone. */
function medians(projects: readonly Project[], measure: (project: Project) => number[]): Map<Name, string[]> {
  const runs = new Map(projects.map(({ name }) => [name, [] as number[][]]))
  for (let round = 0; round < ROUNDS; round++) {
    for (const one of projects) runs.get(one.name)?.push(measure(one))
  }
  return new Map([...runs].map(([name, rows]) => [name, columnMedians(rows)]))
}

function columnMedians(rows: readonly number[][]): string[] {
  const [first = []] = rows
  return first.map((_, at) => median(rows.map((row) => row[at] as number)).toFixed(1))
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] as number

try {
  const source = join(import.meta.dirname, '../packages/redress')
  npm(source, 'pack', '--pack-destination', scratch)
  const tarball = readdirSync(scratch).find((name) => name.endsWith('.tgz')) as string
  const projects = [project('redress', join(scratch, tarball)), project('bullmq', BULLMQ)]
  const imports = medians(projects, imported)
  for (const { name, packages, megabytes } of projects) {
    const [ms, cpuMs, rss, heap] = imports.get(name) ?? []
    console.log(
      `${name.padEnd(8)} ${packages} packages, ${megabytes.toFixed(1)} MB on disk; import: ${ms} ms, ` +
        `${cpuMs} ms of the processor, ${rss} MB of memory, ${heap} MB of heap`,
    )
  }
  for (const { tsc, version } of COMPILERS.map(compiler)) {
    const times = medians(projects, (one) => compiled(one, tsc))
    for (const { name } of projects) {
      console.log(`${name.padEnd(8)} tsc ${version} on hello world, without skipLibCheck: ${times.get(name)?.[0]} ms`)
    }
  }
} finally {
  rmSync(scratch, { recursive: true, force: true })
}
