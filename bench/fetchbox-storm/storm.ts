import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fetchboxApp } from '@redress/fetchbox'
import { type App, redress } from 'redress'
import { startServer } from 'redress/http'
import { seededChance } from 'redress/testing'
import { type ForwardProxy, forwardProxy } from '../../test/support/servers/forward-proxy.ts'
import { afterMs } from '../kill-loop/children.ts'
import { check, type Known } from './check.ts'
import { Origins } from './origins.ts'
import { openStorage, type Storage } from './storages.ts'
import { startWorker, type Worker } from './workers.ts'

export interface StormOptions {
  folder: string
  resources: number
  jobs: number
  proxies: number
  workers: number
  /** Workers that are killed on the way, evenly spread. */
  kills: number
  /** Of all resources, those that have something wrong with them. */
  faultShare: number
  storage: 'folder' | 's3'
  /** How long a killed worker's jobs wait for another one. */
  leaseSec: number
  concurrency: number
  /** How long a connection, an answer or the next part of it may take. */
  timeoutMs: number
  seed: number
  say?: (line: string) => void
}

export interface StormReport {
  problems: string[]
  kills: number
  /** By what was wrong with them, and how it was told. */
  deadLetters: Readonly<Record<string, number>>
  stored: { before: number; after: number }
  requests: number
  replays: number
  seconds: { storm: number; replay: number }
  /** The most that a worker ever held, in MiB. */
  workerPeakMiB: number
}

const REPLAYS_MAX = 4
const STALLED_MS = 120_000
const BY = { actor: 'storm', reason: 'everything is healed' }

/** Everything goes wrong that can, with real processes and connections; then it is healed, and what is left replayed. */
export async function storm(options: StormOptions): Promise<StormReport> {
  const { folder, resources, seed, say = () => undefined } = options
  const origins = await Origins.start(resources, options.faultShare, seed)
  const proxies = await Promise.all(Array.from({ length: options.proxies }, () => forwardProxy()))
  const storage = await openStorage(options.storage, folder)
  const env = environment(options, origins, proxies, storage)
  const app = redress({ store: `sqlite:${join(folder, 'redress.db')}` })
  const log = { debug() {}, info() {}, warn() {}, error: console.error } as never
  const installed = await fetchboxApp().install(app, { home: join(folder, 'fetchbox'), env, log })
  const server = await startServer({ app, port: 0, auth: 'none', mounts: [installed.mount ?? (() => undefined)], log })
  await server.ready
  const known: Known = { url: server.url, storage, origins, jobs: [] }
  const workers: Worker[] = []
  const newWorker = () => startWorker({ folder, env, concurrency: options.concurrency })
  try {
    await submitAll(known, options)
    say(`${resources} resources in ${known.jobs.length} jobs are accepted`)
    for (let i = 0; i < options.workers; i++) workers.push(newWorker())
    const beganMs = performance.now()
    const kills = await weather(app, options, { proxies, storage, workers, newWorker })
    const stormMs = performance.now() - beganMs
    const before = await check(known, { isHealed: false })
    say(`${before.stored} are stored, ${before.failed} are dead letters, after ${(stormMs / 1000).toFixed(1)} s`)

    origins.heal()
    storage.heal()
    for (const proxy of proxies) proxy.become('ok')
    let [replays, left] = [0, before.failed]
    for (; left > 0 && replays < REPLAYS_MAX; replays++) {
      await app.perform('dead-letters.replay-matching', { ...BY, all: true })
      left = await settled(app, resources, left)
    }
    const replayMs = performance.now() - beganMs - stormMs
    const after = await check(known, { isHealed: true })
    const peaks = workers.map((worker) => worker.peakMiB())
    return {
      problems: [...before.problems, ...after.problems, ...workers.flatMap((worker) => worker.problems())],
      kills,
      deadLetters: before.causes,
      stored: { before: before.stored, after: after.stored },
      requests: origins.requests,
      replays,
      seconds: { storm: stormMs / 1000, replay: replayMs / 1000 },
      workerPeakMiB: Math.round(Math.max(...peaks)),
    }
  } finally {
    await Promise.all(workers.map((worker) => worker.stop()))
    await server.stop({ graceMs: 0 })
    await app.stop({ graceMs: 1_000 })
    await installed.stop?.()
    await Promise.all(proxies.map((proxy) => proxy.close()))
    await origins.stop()
    await storage.stop()
  }
}

function environment(
  { folder, leaseSec, concurrency, timeoutMs }: StormOptions,
  origins: Origins,
  proxies: readonly ForwardProxy[],
  storage: Storage,
): Record<string, string> {
  const urls = proxies.map(({ url }) => url)
  const half = Math.ceil(urls.length / 2)
  const tiers = [
    [{ pool: 'proxies/first', urls: urls.slice(0, half) }],
    [{ pool: 'proxies/second', urls: urls.slice(half) }],
  ]
  const proxiesFile = join(folder, 'proxies.json')
  writeFileSync(proxiesFile, JSON.stringify({ tiers: tiers.filter(([pool]) => (pool?.urls.length ?? 0) > 0) }))
  return {
    ...storage.env,
    FETCHBOX_PROXIES: proxiesFile,
    FETCHBOX_ALLOW: origins.addresses.join(','),
    FETCHBOX_RETRY_BASE_MS: '100',
    FETCHBOX_LEASE_SEC: String(leaseSec),
    FETCHBOX_CONCURRENCY: String(concurrency * 4),
    FETCHBOX_PER_HOST: String(concurrency),
    FETCHBOX_CONNECT_TIMEOUT_MS: String(timeoutMs),
    FETCHBOX_HEADERS_TIMEOUT_MS: String(timeoutMs),
    FETCHBOX_BODY_TIMEOUT_MS: String(timeoutMs),
    DISK_FREE_SOFT_MB: '0',
    DISK_FREE_HARD_MB: '0',
  }
}

async function submitAll(known: Known, { resources, jobs }: StormOptions): Promise<void> {
  const perJob = Math.ceil(resources / jobs)
  for (let from = 0; from < resources; from += perJob) {
    const numbers = Array.from({ length: Math.min(perJob, resources - from) }, (_, i) => from + i)
    const body = JSON.stringify({ resources: numbers.map((n) => ({ id: `r${n}`, url: known.origins.url(n) })) })
    const headers = { 'content-type': 'application/json' }
    const answer = await fetch(`${known.url}/fetchbox/jobs`, { method: 'POST', headers, body })
    if (answer.status !== 202) throw new Error(`a job was answered ${answer.status}: ${await answer.text()}`)
    const { id } = (await answer.json()) as { id: string }
    const prefix = `resources/sample/${id}/`
    known.jobs.push({ id, numbers, prefix, isBlocked: known.jobs.length === 0 })
    // The first job finds no room at all in the storage.
    if (known.jobs.length === 1)
      known.storage.block(
        prefix,
        numbers.map((n) => `${prefix}r${n}`),
      )
  }
}

interface Fleet {
  proxies: readonly ForwardProxy[]
  storage: Storage
  workers: Worker[]
  newWorker(): Worker
}

/** Lets it all happen, each at its share of what is done, until everything is over; answers how many were killed. */
async function weather(
  app: App,
  options: StormOptions,
  { proxies, storage, workers, newWorker }: Fleet,
): Promise<number> {
  const { resources, kills, seed, say = () => undefined } = options
  const chance = seededChance(seed + 1)
  let killed = 0
  const kill = async () => {
    const worker = workers[Math.floor(chance() * workers.length)] as Worker
    workers[workers.indexOf(worker)] = newWorker()
    await worker.kill()
    killed++
    say('a worker was killed')
  }
  const [first, second, third] = proxies
  const acts: [share: number, act: () => unknown][] = [
    ...Array.from({ length: kills }, (_, i): [number, () => unknown] => [(i + 1) / (kills + 1), kill]),
    [0.15, () => storage.stumble()],
    [0.3, () => first?.become('resets')],
    [0.45, () => second?.become('hangs')],
    [0.55, () => second?.become('ok')],
    [0.65, () => storage.stumble()],
    [0.7, () => third?.close()],
  ]
  acts.sort(([a], [b]) => a - b)
  let [most, movedMs] = [-1, performance.now()]
  for (;;) {
    const over = await overCount(app)
    if (over > most) movedMs = performance.now()
    most = Math.max(most, over)
    while (acts[0] !== undefined && over >= acts[0][0] * resources) await acts.shift()?.[1]()
    if (over === resources && acts.length === 0) return killed
    if (performance.now() - movedMs > STALLED_MS) throw new Error(`only ${over} of ${resources} came to an end`)
    await afterMs(50)
  }
}

async function overCount(app: App): Promise<number> {
  const store = await app.store()
  const batches = await store.batches({ limit: 1_000 })
  return batches.reduce((sum, { total, unfinished }) => sum + total - unfinished, 0)
}

/** Until what is replayed is over; answers how many failed again. */
async function settled(app: App, resources: number, before: number): Promise<number> {
  const failedCount = async () =>
    (await (await app.store()).batches({ limit: 1_000 })).reduce((n, { failed }) => n + failed, 0)
  const beganMs = performance.now()
  for (let isMoved = false; ; ) {
    const [over, failed] = [await overCount(app), await failedCount()]
    isMoved ||= over < resources || failed !== before
    if (isMoved && over === resources && (await isReplayOver(app))) return failed
    if (performance.now() - beganMs > STALLED_MS) throw new Error('what was replayed does not come to an end')
    await afterMs(50)
  }
}

async function isReplayOver(app: App): Promise<boolean> {
  const { replays } = await app.perform('replays.list', {})
  return replays.every(({ state }) => state !== 'running' && state !== 'planned')
}
