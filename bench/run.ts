import { tmpdir } from 'node:os'
import { parseArgs } from 'node:util'
import type { Floor } from './floor.ts'
import { GROWTH_TEXTS, GROWTHS, measureGrowth } from './growth.ts'
import { measureListing } from './listing.ts'
import { drain, type HandlerName, idleLatency, openBench, submitBulk, submitSingly } from './measures.ts'
import { type Fresh, type Place, postgresPlace, sqlitePlace } from './places.ts'

const { values } = parseArgs({
  options: {
    store: { type: 'string', default: 'sqlite' },
    jobs: { type: 'string', default: '50000' },
    rounds: { type: 'string', default: '3' },
    dir: { type: 'string', default: tmpdir() },
    growth: { type: 'boolean', default: true },
    memory: { type: 'boolean', default: false },
    listing: { type: 'boolean', default: false },
    pages: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
  allowNegative: true,
})

const HELP = `npm run bench -- [--store sqlite|postgres|postgres://...] [--jobs 50000] [--rounds 3] [--dir FOLDER]
                [--no-growth] [--memory] [--listing] [--pages]

Jobs per second with every commit on disk and the whole history on, next to a floor of bare SQL that makes the same
transitions on the same tables in the same run. Medians of interleaved rounds. --dir chooses the disk.

--store postgres starts a PostgreSQL of its own in --dir; with an address, databases are made on that server, and
removed again. There, drains are also measured in stores that have grown: with a million finished jobs, with a million
that wait, and while somebody's transaction keeps dead rows from being removed. That takes minutes; --no-growth leaves
it out.
--memory drains a million jobs instead and prints how the memory goes.
--listing measures instead how long it takes to find jobs among a million, by each filter.
--pages measures instead how long a browser takes to show a page of the dashboard, with a million jobs.`

/** As many as a worker claims at most, as many as it has slots, and as many as are in flight. */
const [BATCH, SLOTS, IN_FLIGHT] = [500, 10, 16]
const LATENCIES = 500

type Note = (name: string, figure: number) => void

function openPlace(store: string): Promise<Place> | Place {
  if (store === 'sqlite') return sqlitePlace(values.dir)
  if (store === 'postgres') return postgresPlace(values.dir, null)
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
  if (place.canGrow && values.growth) {
    await measureGrowth(place, jobs, rounds, (growth, figure) => note(`growth: ${growth}`, figure))
    console.log(`\n${'drain, no-op'.padEnd(WIDTH)}${'Redress'.padStart(10)}`)
    for (const growth of GROWTHS) {
      const figure = of(`growth: ${growth}`)
      const remark = growth === 'empty' ? '' : share('that', figure, of('growth: empty'))
      console.log(`${GROWTH_TEXTS[growth].padEnd(WIDTH)}${whole(figure).padStart(10)}   ${remark}`)
    }
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

async function onFresh(place: Place, run: (fresh: Fresh) => Promise<void>): Promise<void> {
  const fresh = await place.fresh()
  try {
    await run(fresh)
  } finally {
    await fresh.remove()
  }
}

const onFloor = (place: Place, run: (floor: Floor) => Promise<void>): Promise<void> =>
  onFresh(place, async ({ openFloor }) => {
    const floor = await openFloor()
    await run(floor)
    await floor.close()
  })

const onBench = (
  place: Place,
  handler: HandlerName,
  defaults: boolean,
  run: (bench: Awaited<ReturnType<typeof openBench>>) => Promise<void>,
): Promise<void> =>
  onFresh(place, async ({ store }) => {
    const bench = await openBench(store, handler, defaults)
    await run(bench)
    await bench.app.stop()
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

async function memory(place: Place): Promise<void> {
  const total = 1_000_000
  await onBench(place, 'no-op', false, async ({ app, type }) => {
    await submitBulk(type, total)
    console.log(`${'done'.padStart(10)}${'heap MB'.padStart(10)}${'rss MB'.padStart(10)}`)
    const rate = await drain(app, total, (n) => {
      if (n % 100_000 !== 0) return
      globalThis.gc?.()
      const { heapUsed, rss } = process.memoryUsage()
      const said = [n, heapUsed / 2 ** 20, rss / 2 ** 20].map((figure) => whole(figure).padStart(10))
      console.log(said.join(''))
    })
    console.log(`${whole(rate)} jobs per second`)
  })
}

function quantile(figures: readonly number[], q: number): number {
  const sorted = figures.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN
}

function whole(figure: number): string {
  return Math.round(figure).toLocaleString('en-US')
}

function share(of: string, figure: number, total: number): string {
  return `${Math.round((100 * figure) / total)} % of ${of}`
}

if (values.help) console.log(HELP)
else {
  const place = await openPlace(values.store)
  try {
    if (values.memory) await memory(place)
    else if (values.listing) await measureListing(place)
    else if (values.pages) await (await import('./pages.ts')).measurePages(place)
    else await benchmark(place, Number(values.jobs), Number(values.rounds))
  } finally {
    await place.stop()
  }
}
