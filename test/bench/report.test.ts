import { expect, test } from 'vitest'
import { CASES, jobsOf } from '../../bench/peers/cases.ts'
import { pageOf } from '../../bench/peers/page.ts'
import { plot } from '../../bench/peers/plot.ts'
import { columnsOf, keyOf, linesOf, quantile, type Results, tableOf } from '../../bench/peers/results.ts'
import { systemsOf } from '../../bench/peers/systems.ts'

/** Every system of every case with the same samples, unless it has no such mode. */
function someResults(samples: { ms: number; nodeUs: number; serverUs: number | null }[]): Results {
  const outcomes: Results['outcomes'] = {}
  for (const given of CASES) {
    for (const system of systemsOf(given)) {
      const isNone = system.kinds[given.kind] === 'none'
      const latencies = given.kind === 'latency' ? [3, 1, 2] : null
      outcomes[keyOf(given, system)] = {
        jobs: isNone ? 0 : 1_000,
        outcome: isNone ? { none: 'none' } : { samples: samples.map((cost) => ({ cost, latencies })) },
      }
    }
  }
  return {
    date: '2026-01-02',
    jobs: 1_000,
    rounds: samples.length,
    node: 'v24.0.0',
    machine: '2 cores',
    postgres: 'PostgreSQL 18, fsync=on',
    sqlite: 'SQLite 3, synchronous=FULL',
    redis: null,
    peers: { 'graphile-worker': '0.18.0' },
    outcomes,
  }
}

const SAMPLES = [
  { ms: 100, nodeUs: 10_000, serverUs: 30_000 },
  { ms: 500, nodeUs: 50_000, serverUs: 90_000 },
  { ms: 200, nodeUs: 20_000, serverUs: 30_000 },
]

function tableOfCase(id: string, results: Results): string[][] {
  const found = linesOf(results).find(({ given }) => given.id === id)
  return found === undefined ? [] : tableOf(found.given, found.lines)
}

test('a table of the benchmark shows the median of each figure per job', () => {
  const [head, redress] = tableOfCase('postgres-drain-10', someResults(SAMPLES))
  expect(head?.slice(0, 4)).toEqual(['system', 'jobs/s', 'ratio to Redress', 'Node us/job'])
  expect(redress).toEqual(['Redress', '5,000', '1.00x', '20.0', '30.0', '20,000', '1,000'])
})

test('a table of the benchmark shows latencies in milliseconds', () => {
  const [head, redress] = tableOfCase('sqlite-latency-1', someResults(SAMPLES))
  expect(head?.slice(1, 3)).toEqual(['p50 ms', 'p99 ms'])
  expect(redress?.slice(0, 4)).toEqual(['Redress', '2.00', '3.00', '1.00x'])
})

test('a peer without a mode has "none" in the benchmark, and no zero', () => {
  const rows = tableOfCase('sqlite-fail-once-10', someResults(SAMPLES))
  const plainjob = rows.filter(([title]) => title?.startsWith('plainjob'))
  expect(plainjob.map(([, figure]) => figure)).toEqual(['none', 'none'])
})

test('the benchmark says that the processor time of a database is unknown, and does not count it as zero', () => {
  const [, redress] = tableOfCase('postgres-drain-10', someResults([{ ms: 100, nodeUs: 10_000, serverUs: null }]))
  expect(redress?.slice(3)).toEqual(['10.0', 'unknown', 'unknown', '1,000'])
  const [, inNode] = tableOfCase('sqlite-drain-10', someResults([{ ms: 100, nodeUs: 10_000, serverUs: null }]))
  expect(inNode?.slice(3)).toEqual(['10.0', 'in Node', '100,000', '1,000'])
})

test('the page of the benchmark shows every case, links only plots that exist, and explains what the peers do not keep', () => {
  const files = pageOf(someResults(SAMPLES))
  const page = files.get('benchmarks.md') ?? ''
  for (const { title } of CASES) expect(page).toContain(`### ${title}\n`)
  const linked = [...page.matchAll(/!\[[^\]]*\]\(([^)]+)\)/g)].map(([, path]) => path as string)
  expect(linked).toEqual([...files.keys()].filter((path) => path.endsWith('.svg')))
  expect(linked.length).toBeGreaterThan(0)
  expect(page).toContain('## What each system keeps')
  expect(page).toContain('BullMQ was not measured')
})

test('the page of a short benchmark calls its figures preliminary, and that of a full one does not', () => {
  const short = someResults(SAMPLES)
  expect(pageOf(short).get('benchmarks.md')).toContain('These figures are preliminary')
  expect(pageOf({ ...short, jobs: 200_000 }).get('benchmarks.md')).not.toContain('preliminary')
})

test('a plot draws one bar per system, the longest for the highest value, for light and dark pages', () => {
  const bars = [
    { label: 'ours', value: 50, text: '50', isOwn: true },
    { label: 'a < b & "c"', value: 100, text: '100', isOwn: false },
  ]
  const svg = plot('jobs per second', bars)
  const widths = [...svg.matchAll(/<rect class="(\w+)"[^>]* width="([\d.]+)"/g)].map(([, kind, width]) => [
    kind,
    Number(width),
  ])
  expect(widths).toEqual([
    ['own', 200],
    ['other', 400],
  ])
  expect(svg).toContain('prefers-color-scheme: dark')
  expect(svg).toContain('a &lt; b &amp; &quot;c&quot;')
})

test('columns of a text table are as wide as their longest text', () => {
  expect(
    columnsOf([
      ['a', 'bbb'],
      ['long', 'c'],
    ]),
  ).toBe('a     bbb\nlong    c')
})

test('a median of an even number of figures is one of them, and a slow system gets fewer jobs', () => {
  expect(quantile([4, 1, 3, 2], 0.5)).toBe(3)
  const [drain] = CASES
  expect(drain && [jobsOf(drain, 1_000, Number.POSITIVE_INFINITY), jobsOf(drain, 1_000, 100)]).toEqual([1_000, 100])
})
