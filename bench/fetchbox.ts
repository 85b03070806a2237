/**
 * How fast resources come from an origin on the loopback into a folder, many small ones and some large ones, beside
 * `curl --parallel` fetching the same from the same origin in the same run. curl only writes, so there is a second
 * figure for curl with a `sync` of each file; fetchbox hashes, syncs every file and its checksum to the disk and looks
 * at it again. `node --conditions=redress-source bench/fetchbox.ts [--concurrency 32]`
 */
import { type ChildProcess, execFile, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs, promisify } from 'node:util'
import type { Measured, Task } from './fetchbox/client.ts'

const { values } = parseArgs({
  options: {
    small: { type: 'string', default: '10000' },
    large: { type: 'string', default: '16' },
    'large-mb': { type: 'string', default: '64' },
    concurrency: { type: 'string', default: '32' },
    rounds: { type: 'string', default: '3' },
    only: { type: 'string', default: 'curl,synced,download,transfer,app' },
    dir: { type: 'string', default: tmpdir() },
  },
})
const concurrency = Number(values.concurrency)
const KINDS = {
  curl: 'curl',
  synced: 'curl and sync',
  download: 'download alone',
  transfer: 'download and upload',
  app: 'the whole app',
} as const
type Kind = keyof typeof KINDS
const kinds = (Object.keys(KINDS) as Kind[]).filter((kind) => values.only.split(',').includes(kind))

const SETS = [
  { title: 'small', bytes: 4096, files: Number(values.small) },
  { title: 'large', bytes: Number(values['large-mb']) * 2 ** 20, files: Number(values.large) },
].filter(({ files }) => files > 0)

const child = (name: string): ChildProcess => fork(join(import.meta.dirname, 'fetchbox', name))

const place = mkdtempSync(join(values.dir, 'redress-fetchbox-bench-'))

/**
 * Many small files are left until the end: for minutes after they are removed, ext4 walks over each of their inodes
 * before it makes a new one, and the next round would measure that.
 */
async function inFolder<T>(files: number, work: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(place, 'round-'))
  try {
    return await work(folder)
  } finally {
    if (files < 100) rmSync(folder, { recursive: true, force: true })
  }
}

async function ours(task: Task): Promise<Measured> {
  const process = child('client.ts')
  process.send(task)
  const [measured] = (await Promise.race([
    once(process, 'message'),
    once(process, 'exit').then(([code]) => Promise.reject(new Error(`the client ended with ${code}`))),
  ])) as [Measured]
  return measured
}

/** The shell knows what its child used; the memory of curl is of no interest: it holds nothing. */
async function curl({ origin, bytes, files, folder }: Omit<Task, 'kind'>, isSynced: boolean): Promise<Measured> {
  const out = join(folder, 'out')
  mkdirSync(out)
  const lines = Array.from(
    { length: files },
    (_, n) => `url = http://${origin}/${bytes}/${n}\noutput = ${join(out, String(n))}`,
  )
  writeFileSync(join(folder, 'urls'), lines.join('\n'))
  const fetching = `curl --silent --show-error --fail --parallel --parallel-max ${concurrency} --config ${join(folder, 'urls')}`
  const syncing = isSynced ? `find ${out} -type f -print0 | xargs -0 sync; sync ${out};` : ''
  const script = `TIMEFORMAT='%R %U %S'; time { ${fetching}; ${syncing} }`
  const { stderr } = await promisify(execFile)('bash', ['-c', script], { maxBuffer: 1 << 26 })
  const [seconds = 0, user = 0, system = 0] = stderr.trim().split('\n').at(-1)?.split(' ').map(Number) ?? []
  return { seconds, cpuSeconds: user + system, peakMiB: Number.NaN }
}

const median = (figures: readonly number[]): number =>
  figures.toSorted((a, b) => a - b)[Math.floor(figures.length / 2)] ?? 0

function report(kind: Kind, { bytes, files }: (typeof SETS)[number], rounds: readonly Measured[]): void {
  const seconds = median(rounds.map((round) => round.seconds))
  const cells = [
    KINDS[kind].padEnd(20),
    `${seconds.toFixed(2)} s`.padStart(9),
    `${(files / seconds).toFixed(1)} files/s`.padStart(15),
    `${((files * bytes) / seconds / 2 ** 20).toFixed(1)} MiB/s`.padStart(12),
    `${median(rounds.map((round) => round.cpuSeconds)).toFixed(2)} s of processor`.padStart(22),
    Number.isNaN(rounds[0]?.peakMiB)
      ? ''
      : `${Math.round(Math.max(...rounds.map((round) => round.peakMiB)))} MiB at most`.padStart(17),
  ]
  console.log(cells.join(''))
}

const origin = child('origin.ts')
const [port] = (await once(origin, 'message')) as [number]
try {
  for (const set of SETS) {
    console.log(`${set.files} files of ${set.bytes} bytes, ${concurrency} at once, median of ${values.rounds}`)
    const found = new Map<Kind, Measured[]>(kinds.map((kind) => [kind, []]))
    for (let round = 0; round < Number(values.rounds); round++) {
      for (const kind of kinds) {
        const task = { origin: `127.0.0.1:${port}`, concurrency, bytes: set.bytes, files: set.files }
        const run = (folder: string): Promise<Measured> =>
          kind === 'curl' || kind === 'synced'
            ? curl({ ...task, folder }, kind === 'synced')
            : ours({ ...task, kind, folder })
        found.get(kind)?.push(await inFolder(set.files, run))
      }
    }
    for (const [kind, rounds] of found) report(kind, set, rounds)
  }
} finally {
  origin.disconnect()
  rmSync(place, { recursive: true, force: true })
}
