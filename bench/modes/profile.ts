import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import postgres from 'postgres'
import { CASES } from '../peers/cases.ts'
import { runChild } from '../peers/compare.ts'
import { columnsOf, whole } from '../peers/results.ts'
import { onFresh, type Place } from '../places.ts'

/** The main paths, and the case in which each is profiled. */
const PROFILES: Readonly<Record<string, string>> = {
  drain: 'drain-10',
  'drain-default': 'drain-default-10',
  'fail-once': 'fail-once-10',
  submit: 'submit-16',
  bulk: 'bulk-1000',
  latency: 'latency-1',
}

/** With this, a server counts what each statement costs. */
export const COUNT_STATEMENTS = ['shared_preload_libraries=pg_stat_statements', 'pg_stat_statements.track=all']

const TOP = 25

/** Writes a processor profile of one path of Redress, and prints where the time goes. */
export async function profile(place: Place, name: string, jobs: number, dir: string): Promise<void> {
  const path = PROFILES[name]
  if (path === undefined) {
    throw new Error(`--profile ${name} is unknown; use one of ${Object.keys(PROFILES).join(', ')}.`)
  }
  await onFresh(place, async ({ store }) => {
    const kind = store.startsWith('sqlite:') ? 'sqlite' : 'postgres'
    if (!CASES.some(({ id }) => id === `${kind}-${path}`)) {
      throw new Error(`--profile ${name} is not measured on ${kind}; use --store postgres.`)
    }
    const statements = kind === 'postgres' ? await openStatements(store) : null
    const file = join(dir, `redress-${kind}-${name}.cpuprofile`)
    const { cost } = await runChild({
      caseId: `${kind}-${path}`,
      systemId: 'redress',
      address: store.replace(/^sqlite:/, ''),
      jobs,
      serverPid: place.serverPid,
      profile: file,
    })
    const { ms, nodeUs, serverUs } = cost
    console.log(`\n${kind} ${name}, ${whole(jobs)} jobs in ${whole(ms)} ms with the profiler on`)
    console.log(`Node ${perJob(nodeUs, jobs)}, database ${serverUs === null ? 'in Node' : perJob(serverUs, jobs)}\n`)
    console.log(columnsOf([['function', 'self ms', 'share', 'us per job'], ...functionsOf(file, jobs)]))
    console.log(`\nThe profile is in ${file}; the developer tools of a browser open it.`)
    if (statements !== null) console.log(await statements(jobs))
  })
}

const perJob = (us: number, jobs: number): string => `${(us / jobs).toFixed(1)} us per job`

interface CpuProfile {
  nodes: { id: number; callFrame: { functionName: string; url: string; lineNumber: number } }[]
  samples: number[]
  timeDeltas: number[]
}

/** By self time: what a function does itself, without those that it calls. */
function functionsOf(file: string, jobs: number): string[][] {
  const { nodes, samples, timeDeltas } = JSON.parse(readFileSync(file, 'utf8')) as CpuProfile
  const nameOf = new Map(
    nodes.map(({ id, callFrame: { functionName, url, lineNumber } }) => {
      const where = url === '' ? '' : ` ${url.split('/').slice(-2).join('/')}:${lineNumber + 1}`
      return [id, `${functionName || '(anonymous)'}${where}`]
    }),
  )
  const selfUs = new Map<string, number>()
  for (const [at, id] of samples.entries()) {
    const name = nameOf.get(id) as string
    // Neither waiting nor the profiler is work.
    if (name === '(idle)' || name.includes('node:inspector')) continue
    selfUs.set(name, (selfUs.get(name) ?? 0) + (timeDeltas[at] ?? 0))
  }
  const totalUs = [...selfUs.values()].reduce((sum, us) => sum + us, 0)
  return [...selfUs]
    .toSorted(([, a], [, b]) => b - a)
    .slice(0, TOP)
    .map(([name, us]) => [name, whole(us / 1000), `${((100 * us) / totalUs).toFixed(1)} %`, (us / jobs).toFixed(2)])
}

/** Answers with what prints the most expensive statements, or says why there are none. */
async function openStatements(store: string): Promise<(jobs: number) => Promise<string>> {
  const sql = postgres(store, { max: 1, onnotice: () => undefined })
  try {
    await sql`CREATE EXTENSION IF NOT EXISTS pg_stat_statements`
    await sql`SELECT count(*) FROM pg_stat_statements`
  } catch (error) {
    await sql.end()
    const why = (error as Error).message
    return async () => `\nThe server does not count statements: ${why}. Load pg_stat_statements to see them.`
  }
  return async (jobs) => {
    const rows = await sql`
      SELECT calls::int, rows::int, total_exec_time AS ms, wal_bytes::float AS wal,
        regexp_replace(query, '\\s+', ' ', 'g') AS query
      FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
      ORDER BY total_exec_time DESC LIMIT 12`
    await sql.end()
    const head = ['statement', 'calls', 'rows', 'ms', 'us per job', 'WAL bytes per job']
    const lines = rows.map(({ calls, rows: changed, ms, wal, query }) => [
      (query as string).trim().slice(0, 90),
      whole(calls as number),
      whole(changed as number),
      whole(ms as number),
      (((ms as number) * 1000) / jobs).toFixed(2),
      whole((wal as number) / jobs),
    ])
    return `\n${columnsOf([head, ...lines])}`
  }
}
