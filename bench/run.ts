import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { Floor } from './floor.ts'
import { baseOf, GROWTHS, type Growth, type GrowthOptions, growthText, measureGrowth } from './growth.ts'
import { measureListing } from './listing.ts'
import { drain, idleLatency, onBench, submitBulk, submitSingly } from './measures.ts'
import { COUNT_STATEMENTS, profile } from './modes/profile.ts'
import { quantile, whole } from './peers/results.ts'
import { onFresh, type Place, postgresPlace, sqlitePlace } from './places.ts'

const { values } = parseArgs({
  options: {
    store: { type: 'string', default: 'sqlite' },
    jobs: { type: 'string' },
    rounds: { type: 'string' },
    dir: { type: 'string', default: tmpdir() },
    quick: { type: 'boolean', default: false },
    peers: { type: 'boolean', default: false },
    case: { type: 'string', default: '' },
    growth: { type: 'boolean', default: false },
    'grown-rows': { type: 'string' },
    scale: { type: 'boolean', default: false },
    memory: { type: 'boolean', default: false },
    profile: { type: 'string' },
    listing: { type: 'boolean', default: false },
    pages: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})

const HELP = `npm run bench -- [--store sqlite|postgres|postgres://...] [--jobs N] [--rounds 3] [--dir FOLDER] [--quick]
                [--peers [--case TEXT] | --growth [--grown-rows N] | --scale | --memory | --profile PATH | --listing | --pages]

Without a mode: jobs per second with every commit on disk and the whole history on, next to a floor of bare SQL that
makes the same transitions on the same tables in the same run. Medians of interleaved rounds, 50,000 jobs.

--store postgres starts a PostgreSQL server in --dir. With an address, the benchmark creates databases on that server
and drops them again. --dir chooses the disk. --quick measures few jobs once: it shows that the benchmark works.

--peers    compares Redress with graphile-worker, pg-boss, plainjob, BullMQ (if there is a redis-server) and the floor, on
           both stores, with 200,000 jobs per drain. Installs them into node_modules/.cache/bench-peers, prints tables and
           writes docs/benchmarks.md with its plots. --case measures only cases whose id contains TEXT (postgres-drain),
           and writes no page; neither does --quick.
--growth   drains in stores that have grown: finished jobs, waiting jobs (--grown-rows, 1,000,000), an idle transaction,
           10,000 queues, 10,000 limit keys.
--scale    1, 2, 4 and 8 worker processes on one store: throughput, and the least and most jobs per worker.
--memory   memory of a worker and of a server over 1,000,000 jobs that complete, and as many that fail once.
--profile  writes a processor profile of one path (drain, drain-default, fail-once, submit, bulk, latency) into --dir,
           and prints the functions with the highest self time. With PostgreSQL also the most expensive statements.
--listing  how long it takes to find jobs among a million, by each filter.
--pages    how long a browser takes to show a page of the dashboard, with a million jobs.`

const QUICK_JOBS = 500

/** As many as a worker claims at most, as many as it has slots, and as many as are in flight. */
const [BATCH, SLOTS, IN_FLIGHT] = [500, 10, 16]
const LATENCIES = 500

type Note = (name: string, figure: number) => void

function openPlace(store: string): Promise<Place> | Place {
  if (store === 'sqlite') return sqlitePlace(values.dir)
  if (store === 'postgres') {
    return postgresPlace(values.dir, null, values.profile === undefined ? [] : COUNT_STATEMENTS)
  }
  if (/^postgres(ql)?:\/\//.test(store)) return postgresPlace(values.dir, store)
  throw new Error(`--store ${store} is neither sqlite, postgres nor an address of PostgreSQL`)
}

async function benchmark(place: Place, jobs: number, rounds: number): Promise<void> {
  const figures = new Map<string, number[]>()
  const note: Note = (name, figure) => figures.set(name, [...(figures.get(name) ?? []), figure])
  const of = (name: string): number => quantile(figures.get(name) ?? [], 0.5)
  for (let round = 0; round < rounds; round++) {
    process.stderr.write(`round ${round + 1} of ${rounds}\n`)
    await measureFloor(place, jobs, note)
    await measureRedress(place, jobs, note)
  }
  console.log(`\n${jobs} jobs, median of ${rounds} rounds, Node ${process.version}, ${place.title}\n`)
  report(of)
}

async function reportGrowth(place: Place, options: GrowthOptions): Promise<void> {
  const figures = new Map<Growth, number[]>(GROWTHS.map((growth) => [growth, []]))
  await measureGrowth(place, options, (growth, figure) => figures.get(growth)?.push(figure))
  const of = (growth: Growth): number => quantile(figures.get(growth) ?? [], 0.5)
  console.log(`\n${options.jobs} jobs, median of ${options.rounds} rounds, Node ${process.version}, ${place.title}\n`)
  console.log(`${'drain, no-op'.padEnd(WIDTH)}${'Redress'.padStart(10)}`)
  for (const growth of GROWTHS) {
    const base = baseOf(growth)
    const remark =
      growth === base ? '' : share(base === 'empty' ? 'empty' : growthText(base, options), of(growth), of(base))
    console.log(`${growthText(growth, options).padEnd(WIDTH)}${whole(of(growth)).padStart(10)}   ${remark}`)
  }
}

/** Fewer where each is a commit of its own. */
const few = (jobs: number): number => Math.ceil(jobs / 25)
const some = (jobs: number): number => Math.ceil(jobs / 5)

async function measureFloor(place: Place, jobs: number, note: Note): Promise<void> {
  await onFloor(place, async (floor) => {
    note('floor: submit in bulk', await floor.submit(jobs, BATCH))
    note('floor: drain, no-op', await floor.drain(jobs, { batch: BATCH, failsOnce: false }))
  })
  await onFloor(place, async (floor) => {
    await floor.submit(jobs, BATCH)
    note('floor: fails once', await floor.drain(jobs, { batch: BATCH, failsOnce: true }))
  })
  await onFloor(place, async (floor) => {
    await floor.submit(some(jobs), BATCH)
    note('floor: drain, default policy', await floor.drain(some(jobs), { batch: SLOTS, failsOnce: false }))
  })
  await onFloor(place, async (floor) => note('floor: submit, 1 in flight', await floor.submit(few(jobs), 1)))
  await onFloor(place, async (floor) => note('floor: submit, 16 in flight', await floor.submit(some(jobs), IN_FLIGHT)))
  await onFloor(place, async (floor) => {
    const taken: { pickUpMs: number; ackMs: number }[] = []
    for (let n = 0; n < LATENCIES; n++) taken.push(await floor.pickUp())
    noteLatencies(
      'floor: ',
      taken.map(({ pickUpMs }) => pickUpMs),
      taken.map(({ ackMs }) => ackMs),
      note,
    )
  })
}

async function measureRedress(place: Place, jobs: number, note: Note): Promise<void> {
  for (const name of ['no-op', 'fails once, declared', 'fails once, thrown'] as const) {
    await onBench(place, name, false, async ({ app, type }) => {
      const submitted = await submitBulk(type, jobs)
      if (name === 'no-op') note('submit in bulk', submitted)
      note(`drain, ${name}`, await drain(app, jobs))
    })
  }
  await onBench(place, 'no-op', true, async ({ app, type }) => {
    await submitBulk(type, some(jobs))
    note('drain, default policy', await drain(app, some(jobs)))
  })
  for (const inFlight of [1, IN_FLIGHT]) {
    await onBench(place, 'no-op', false, async ({ type }) => {
      const submitted = await submitSingly(type, inFlight === 1 ? few(jobs) : some(jobs), inFlight)
      note(`submit, ${inFlight} in flight`, submitted)
    })
  }
  await onFresh(place, async ({ store }) => {
    const { pickUpMs, ackMs } = await idleLatency(store, LATENCIES)
    noteLatencies('', pickUpMs, ackMs, note)
  })
}

function noteLatencies(prefix: string, pickUpMs: readonly number[], ackMs: readonly number[], note: Note): void {
  note(`${prefix}pick-up p50`, quantile(pickUpMs, 0.5))
  note(`${prefix}pick-up p99`, quantile(pickUpMs, 0.99))
  note(`${prefix}ack p50`, quantile(ackMs, 0.5))
  note(`${prefix}ack p99`, quantile(ackMs, 0.99))
}

const onFloor = (place: Place, run: (floor: Floor) => Promise<void>): Promise<void> =>
  onFresh(place, async ({ openFloor }) => {
    const floor = await openFloor()
    await run(floor)
    await floor.close()
  })

const WIDTH = 32

function report(of: (name: string) => number): void {
  const lines: [name: string, floor: string, remark: string][] = [
    ['submit in bulk', 'submit in bulk', ''],
    ['submit, 1 in flight', 'submit, 1 in flight', 'a commit each'],
    ['submit, 16 in flight', 'submit, 16 in flight', ''],
    ['drain, no-op', 'drain, no-op', ''],
    ['drain, default policy', 'drain, default policy', `never claims ahead of its ${SLOTS} slots`],
    ['drain, fails once, declared', 'fails once', ''],
    ['drain, fails once, thrown', 'fails once', ''],
  ]
  console.log(`${'jobs per second'.padEnd(WIDTH)}${'Redress'.padStart(10)}${'floor'.padStart(10)}`)
  for (const [name, floorName, remark] of lines) {
    const [figure, floor] = [of(name), of(`floor: ${floorName}`)]
    const said = [share('floor', figure, floor), ...(remark === '' ? [] : [remark])].join(', ')
    console.log(`${name.padEnd(WIDTH)}${whole(figure).padStart(10)}${whole(floor).padStart(10)}   ${said}`)
  }
  console.log(`\n${'milliseconds, idle worker'.padEnd(WIDTH)}${'p50'.padStart(10)}${'p99'.padStart(10)}`)
  const times = (name: string): string => ['p50', 'p99'].map((q) => of(`${name} ${q}`).toFixed(2).padStart(10)).join('')
  for (const [text, name] of [
    ['submit to handler', 'pick-up'],
    ['submit to acknowledgement', 'ack'],
  ] as const) {
    console.log(`${text.padEnd(WIDTH)}${times(name)}   floor:${times(`floor: ${name}`)}`)
  }
}

function share(of: string, figure: number, total: number): string {
  return `${Math.round((100 * figure) / total)} % of ${of}`
}

/** One mode at a time; `jobs` is what the mode measures unless --jobs says otherwise. */
async function run(): Promise<void> {
  const jobs = (usual: number): number => Number(values.jobs ?? (values.quick ? QUICK_JOBS : usual))
  const rounds = Number(values.rounds ?? (values.quick ? 1 : 3))
  if (values.peers) {
    const postgres = /^postgres(ql)?:/.test(values.store) ? values.store : null
    const docs = values.quick || values.case !== '' ? null : join(import.meta.dirname, '../docs')
    const { compare } = await import('./peers/compare.ts')
    return compare({ dir: values.dir, postgres, jobs: jobs(200_000), rounds, filter: values.case, docs })
  }
  const place = await openPlace(values.store)
  try {
    if (values.memory) await (await import('./modes/memory.ts')).measureMemory(place, jobs(1_000_000))
    else if (values.scale) await (await import('./modes/scale.ts')).measureScale(place, jobs(200_000), rounds)
    else if (values.profile !== undefined) await profile(place, values.profile, jobs(100_000), values.dir)
    else if (values.listing) await measureListing(place)
    else if (values.pages) await (await import('./pages.ts')).measurePages(place)
    else if (values.growth) {
      const rows = Number(values['grown-rows'] ?? (values.quick ? QUICK_JOBS : 1_000_000))
      await reportGrowth(place, { jobs: jobs(50_000), rounds, rows, spread: values.quick ? 100 : 10_000 })
    } else await benchmark(place, jobs(50_000), rounds)
  } finally {
    await place.stop()
  }
}

if (values.help) console.log(HELP)
else await run()
