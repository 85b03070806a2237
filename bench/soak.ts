import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startOwnPostgres } from '../test/support/stores/postgres.ts'
import { storm } from './fetchbox-storm/storm.ts'
import { fleet } from './kill-loop/fleet.ts'
import { killLoop } from './kill-loop/kill-loop.ts'

const HELP = `npm run soak -- [fetchbox] [options]: kills real processes for a long time, then looks for lost or doubled work.

  npm run soak -- --kills 5000 --seed 7
  npm run soak -- --store postgres --workers 8 --submitters 4 --jobs 200000 --kills 400 --restarts 20
  npm run soak -- fetchbox --resources 20000 --jobs 50 --proxies 5 --kills 3 [--storage s3]

--store postgres starts its own server, and crashes and restarts it --restarts times. --store postgres://... uses an empty
database of yours and leaves that server alone. fetchbox sends resources through failing proxies, origins and workers into
a storage that fails now and then. --dir chooses the disk.`

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    store: { type: 'string', default: 'sqlite' },
    kills: { type: 'string' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
    workers: { type: 'string' },
    submitters: { type: 'string', default: '4' },
    jobs: { type: 'string' },
    restarts: { type: 'string', default: '0' },
    resources: { type: 'string', default: '20000' },
    proxies: { type: 'string', default: '5' },
    storage: { type: 'string', default: 'folder' },
    'fault-share': { type: 'string', default: '0.1' },
    dir: { type: 'string', default: tmpdir() },
    help: { type: 'boolean', default: false },
  },
})

if (values.help) {
  console.log(HELP)
  process.exit(0)
}

const folder = mkdtempSync(join(values.dir, 'redress-soak-'))
const isStorm = positionals[0] === 'fetchbox'
const isSqlite = values.store === 'sqlite'
const kills = Number(values.kills ?? (isStorm ? 3 : isSqlite ? 5_000 : 400))
const workers = Number(values.workers ?? (isStorm ? 2 : isSqlite ? 3 : 8))
const jobs = Number(values.jobs ?? (isStorm ? 50 : 200_000))
const [seed, submitters, restarts] = [values.seed, values.submitters, values.restarts].map(Number) as [
  ...[number, number, number],
]
console.log(`killing ${kills} processes, seed ${seed}, in ${folder}`)

async function onPostgres() {
  const server = values.store === 'postgres' ? await startOwnPostgres({ dir: folder }) : null
  const restart = async (): Promise<void> => {
    await server?.crash()
    await server?.start()
  }
  const blows = server === null ? [] : Array<typeof restart>(restarts).fill(restart)
  const store = server?.url ?? values.store
  const report = await fleet({ folder, store, workers, submitters, jobs, kills, blows, seed, say: console.log })
  if (report.problems.length === 0) await server?.stop()
  else await server?.end()
  return report
}

const onFetchbox = () =>
  storm({
    ...{ folder, jobs, workers, kills, seed, leaseSec: 5, concurrency: 64, timeoutMs: 1_000, say: console.log },
    resources: Number(values.resources),
    proxies: Number(values.proxies),
    faultShare: Number(values['fault-share']),
    storage: values.storage === 's3' ? 's3' : 'folder',
  })

const { problems, ...numbers } = isStorm
  ? await onFetchbox()
  : isSqlite
    ? await killLoop({ folder, kills, seed, workers, say: console.log })
    : await onPostgres()
console.log(JSON.stringify(numbers, null, 2))
if (problems.length === 0) {
  console.log(
    isStorm
      ? 'Each resource is stored once with its checksum, and whatever was not had its cause until it was replayed.'
      : 'Nothing was lost, nothing was done twice, and every history leads to its job.',
  )
  rmSync(folder, { recursive: true })
} else {
  console.error(`${problems.length} problems; the store is kept in ${folder}:\n${problems.slice(0, 50).join('\n')}`)
  process.exitCode = 1
}
