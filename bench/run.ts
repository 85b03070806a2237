import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { measureFloor } from './floor.ts'
import { drain, type HandlerName, idleLatency, openBench, submitBulk, submitSingly } from './measures.ts'

const { values } = parseArgs({
  options: {
    jobs: { type: 'string', default: '50000' },
    rounds: { type: 'string', default: '3' },
    dir: { type: 'string', default: tmpdir() },
    memory: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})

if (values.help) {
  console.log(`npm run bench -- [--jobs 50000] [--rounds 3] [--dir FOLDER] [--memory]

Jobs per second with synchronous=FULL and the whole history on, next to a floor of bare SQL that makes the same
transitions on the same tables in the same run. Medians of interleaved rounds. --dir chooses the disk.
--memory drains a million jobs instead and prints how the memory goes.`)
} else if (values.memory) await memory()
else await benchmark(Number(values.jobs), Number(values.rounds))

async function benchmark(jobs: number, rounds: number): Promise<void> {
  const figures = new Map<string, number[]>()
  const note = (name: string, figure: number) => figures.set(name, [...(figures.get(name) ?? []), figure])
  for (let round = 0; round < rounds; round++) {
    process.stderr.write(`round ${round + 1} of ${rounds}\n`)
    const floor = await inFolder((path) => measureFloor(path, jobs, false))
    note('floor: submit in bulk', floor.submitted)
    note('floor: drain', floor.drained)
    note('floor: fail once', (await inFolder((path) => measureFloor(path, jobs, true))).drained)
    await drainRound('no-op', jobs, note)
    const cautious = openIn('no-op', true)
    await submitBulk(cautious.type, jobs)
    note('drain, default policy', await drain(cautious.app, jobs))
    await cautious.app.stop()
    cautious.done()
    await drainRound('fails once, declared', jobs, note)
    await drainRound('fails once, thrown', jobs, note)
    for (const inFlight of [1, 16]) {
      const { app, type, done } = openIn()
      note(`submit, ${inFlight} in flight`, await submitSingly(type, inFlight === 1 ? jobs / 25 : jobs / 5, inFlight))
      await app.stop()
      done()
    }
    const { pickUpMs, ackMs } = await inFolder((path) => idleLatency(path, 500))
    note('pick-up p50', quantile(pickUpMs, 0.5))
    note('pick-up p99', quantile(pickUpMs, 0.99))
    note('ack p50', quantile(ackMs, 0.5))
  }
  report(jobs, rounds, (name) => quantile(figures.get(name) ?? [], 0.5))
}

async function drainRound(
  name: HandlerName,
  jobs: number,
  note: (name: string, figure: number) => void,
): Promise<void> {
  const { app, type, done } = openIn(name)
  const submitted = await submitBulk(type, jobs)
  if (name === 'no-op') note('submit in bulk', submitted)
  note(`drain, ${name}`, await drain(app, jobs))
  await app.stop()
  done()
}

function report(jobs: number, rounds: number, of: (name: string) => number): void {
  const plain = of('drain, no-op')
  const rows: [string, number, string][] = [
    ['submit in bulk', of('submit in bulk'), share('floor', of('submit in bulk'), of('floor: submit in bulk'))],
    ['submit, 1 in flight', of('submit, 1 in flight'), 'one fsync each'],
    ['submit, 16 in flight', of('submit, 16 in flight'), ''],
    ['drain, no-op', plain, share('floor', plain, of('floor: drain'))],
    ['drain, default policy', of('drain, default policy'), 'never claims ahead of its 10 slots'],
  ]
  for (const name of ['fails once, declared', 'fails once, thrown'] as const) {
    const figure = of(`drain, ${name}`)
    rows.push([
      `drain, ${name}`,
      figure,
      `${share('its floor', figure, of('floor: fail once'))}, ${share('plain', figure, plain)}`,
    ])
  }
  console.log(
    `\n${jobs} jobs, median of ${rounds} rounds, Node ${process.version}, SQLite ${process.versions.sqlite}, synchronous=FULL\n`,
  )
  console.log(`${'jobs per second'.padEnd(28)}${'Redress'.padStart(10)}`)
  for (const [name, figure, remark] of rows) console.log(`${name.padEnd(28)}${whole(figure).padStart(10)}   ${remark}`)
  console.log(`\n${'milliseconds, idle worker'.padEnd(28)}${'p50'.padStart(10)}${'p99'.padStart(10)}`)
  console.log(
    `${'submit to handler'.padEnd(28)}${of('pick-up p50').toFixed(2).padStart(10)}${of('pick-up p99').toFixed(2).padStart(10)}`,
  )
  console.log(`${'submit to acknowledgement'.padEnd(28)}${of('ack p50').toFixed(2).padStart(10)}`)
}

async function memory(): Promise<void> {
  const total = 1_000_000
  const { app, type, done } = openIn()
  await submitBulk(type, total)
  console.log(`${'done'.padStart(10)}${'heap MB'.padStart(10)}${'rss MB'.padStart(10)}`)
  const rate = await drain(app, total, (n) => {
    if (n % 100_000 !== 0) return
    globalThis.gc?.()
    const { heapUsed, rss } = process.memoryUsage()
    console.log(`${whole(n).padStart(10)}${whole(heapUsed / 2 ** 20).padStart(10)}${whole(rss / 2 ** 20).padStart(10)}`)
  })
  console.log(`${whole(rate)} jobs per second`)
  await app.stop()
  done()
}

function openIn(handler?: HandlerName, defaults = false) {
  const folder = mkdtempSync(join(String(values.dir), 'redress-bench-'))
  return { ...openBench(join(folder, 'bench.db'), handler, defaults), done: () => rmSync(folder, { recursive: true }) }
}

async function inFolder<T>(run: (path: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(String(values.dir), 'redress-bench-'))
  try {
    return await run(join(folder, 'bench.db'))
  } finally {
    rmSync(folder, { recursive: true })
  }
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
