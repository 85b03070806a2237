import { spawn, spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus, release, totalmem, type } from 'node:os'
import { dirname, join } from 'node:path'
import { REDIS, startRedis } from '../../test/support/servers/redis.ts'
import { type Place, postgresPlace, sqlitePlace } from '../places.ts'
import { CASES, type Case, jobsOf } from './cases.ts'
import type { ChildOrder } from './child.ts'
import { installPeers, PEERS } from './install.ts'
import { pageOf } from './page.ts'
import { columnsOf, keyOf, linesOf, type Outcome, type Results, type Sample, tableOf } from './results.ts'
import type { System } from './system.ts'
import { systemsOf } from './systems.ts'

export interface CompareOptions {
  dir: string
  /** The server to use; null for one of its own. */
  postgres: string | null
  jobs: number
  rounds: number
  /** Text that the ids of the cases must contain. */
  filter: string
  /** Where the page is written; null for none. */
  docs: string | null
}

const DURABLE_REDIS = ['--appendonly', 'yes', '--appendfsync', 'everysec']
const FROM_SOURCES = ['--conditions=redress-source', '--disable-warning=ExperimentalWarning']
const CHILD_MS_MAX = 20 * 60_000

/** Runs all cases with all systems in turns, and prints and writes what came out. */
export async function compare(options: CompareOptions): Promise<void> {
  installPeers()
  const places = {
    postgres: await postgresPlace(options.dir, options.postgres),
    sqlite: sqlitePlace(options.dir),
  }
  try {
    const results = await measureAll(options, places)
    for (const { given, lines } of linesOf(results)) {
      console.log(`\n${given.title}\n${columnsOf(tableOf(given, lines))}`)
    }
    if (options.docs === null) return
    for (const [path, text] of pageOf(results)) {
      const file = join(options.docs, path)
      mkdirSync(dirname(file), { recursive: true })
      writeFileSync(file, text)
    }
  } finally {
    await places.postgres.stop()
  }
}

async function measureAll(
  { jobs, rounds, filter }: CompareOptions,
  places: Record<Case['store'], Place>,
): Promise<Results> {
  const outcomes: Results['outcomes'] = {}
  for (const given of CASES.filter(({ id }) => id.includes(filter))) {
    for (let round = 0; round < rounds; round++) {
      process.stderr.write(`${given.title}: round ${round + 1} of ${rounds}\n`)
      for (const system of systemsOf(given)) {
        const most = system.kinds[given.kind] as number | 'none'
        const count = most === 'none' ? 0 : jobsOf(given, jobs, most)
        const before = outcomes[keyOf(given, system)]?.outcome
        // A system that failed once is not measured again.
        if (before !== undefined && 'none' in before) continue
        const outcome = most === 'none' ? { none: 'none' } : await measureOne(given, system, count, places)
        outcomes[keyOf(given, system)] = { jobs: count, outcome: merged(before, outcome) }
      }
    }
  }
  const [cpu] = cpus()
  return {
    date: new Date().toISOString().slice(0, 10),
    jobs,
    rounds,
    node: process.version,
    machine: `${cpus().length} cores (${cpu?.model.trim()}), ${Math.round(totalmem() / 2 ** 30)} GB of memory, ${type()} ${release()}`,
    postgres: places.postgres.title,
    sqlite: places.sqlite.title,
    redis: REDIS === null ? null : redisVersion(REDIS),
    peers: PEERS,
    outcomes,
  }
}

const merged = (before: Outcome | undefined, outcome: Outcome): Outcome =>
  before !== undefined && 'samples' in before && 'samples' in outcome
    ? { samples: [...before.samples, ...outcome.samples] }
    : outcome

function redisVersion(program: string): string {
  const said = spawnSync(program, ['--version'], { argv0: 'redis-server', encoding: 'utf8' }).stdout
  return `${/v=(\S+)/.exec(said)?.[1] ?? 'unknown version'}, appendonly=yes, appendfsync=everysec`
}

/** One system in one case, on a store of its own. */
export async function sampleIn(place: Place, caseId: string, systemId: string, jobs: number): Promise<Sample> {
  const { store, remove } = await place.fresh()
  try {
    const address = store.replace(/^sqlite:/, '')
    return await runChild({ caseId, systemId, address, jobs, serverPid: place.serverPid, profile: null })
  } finally {
    await remove()
  }
}

async function measureOne(
  given: Case,
  system: System,
  jobs: number,
  places: Record<Case['store'], Place>,
): Promise<Outcome> {
  try {
    if (system.backend !== 'redis') return { samples: [await sampleIn(places[given.store], given.id, system.id, jobs)] }
    return REDIS === null ? { none: 'no Redis here' } : { samples: [await sampleInRedis(given.id, system.id, jobs)] }
  } catch (error) {
    process.stderr.write(`${given.id}, ${system.title}: ${(error as Error).message}\n`)
    return { none: 'failed' }
  }
}

async function sampleInRedis(caseId: string, systemId: string, jobs: number): Promise<Sample> {
  const { url, pid, stop } = await startRedis(DURABLE_REDIS)
  try {
    return await runChild({ caseId, systemId, address: url, jobs, serverPid: pid, profile: null })
  } finally {
    await stop()
  }
}

/** A process of its own for each measurement: no system pays for what another one left in memory. */
export function runChild(order: ChildOrder): Promise<Sample> {
  const args = [...FROM_SOURCES, join(import.meta.dirname, 'child.ts'), JSON.stringify(order)]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'pipe', 'ipc'], timeout: CHILD_MS_MAX })
  return new Promise((resolve, reject) => {
    let said = ''
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      said = `${said}${text}`.slice(-2_000)
    })
    child.once('message', (sample) => resolve(sample as Sample))
    child.once('exit', (code, signal) => reject(new Error(`The process ended with ${code ?? signal}: ${said}`)))
  })
}
