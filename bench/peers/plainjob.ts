import { DatabaseSync } from 'node:sqlite'
import { loadPeer } from './install.ts'
import { ALL, countdown, type Queue, runQueue, type System } from './system.ts'

/** The part of plainjob that is used here; it has no types that this project installs. */
interface Plainjob {
  defineQueue(options: { connection: unknown; logger: unknown }): {
    add(type: string, data: unknown): unknown
    addMany(type: string, data: unknown[]): unknown
    close(): void
  }
  defineWorker(type: string, processor: () => void, options: object): { start(): Promise<void>; stop(): Promise<void> }
}

const TYPE = 'noop'
const silent = { error() {}, warn() {}, info() {}, debug() {} }

/** plainjob takes any connection of this shape. With Node's own SQLite, all systems run on the same SQLite. */
function connectionOf(database: DatabaseSync) {
  const within =
    (begin: string, work: (...args: unknown[]) => unknown) =>
    (...args: unknown[]) => {
      database.exec(begin)
      try {
        const answer = work(...args)
        database.exec('COMMIT')
        return answer
      } catch (error) {
        database.exec('ROLLBACK')
        throw error
      }
    }
  return {
    driver: 'better-sqlite3',
    filename: '',
    pragma: (text: string) => database.exec(`PRAGMA ${text}`),
    exec: (text: string) => database.exec(text),
    prepare: (text: string) => database.prepare(text),
    transaction: (work: (...args: unknown[]) => unknown) =>
      Object.assign(within('BEGIN', work), { immediate: within('BEGIN IMMEDIATE', work) }),
    close: () => database.close(),
  }
}

async function openPlainjob(path: string, synchronous: 'FULL' | 'NORMAL'): Promise<Queue> {
  const { defineQueue, defineWorker } = await loadPeer<Plainjob>('plainjob')
  const database = new DatabaseSync(path)
  const queue = defineQueue({ connection: connectionOf(database), logger: silent })
  // It sets NORMAL itself.
  database.exec(`PRAGMA synchronous = ${synchronous}`)
  const options = { queue, logger: silent, pollIntervall: 1 }
  let worker: ReturnType<typeof defineWorker> | null = null
  return {
    submitMany: async (from, count) =>
      queue.addMany(
        TYPE,
        Array.from({ length: count }, (_, i) => ({ n: from + i })),
      ),
    submitOne: async (n) => queue.add(TYPE, { n }),
    drain: ({ jobs, meter }) =>
      meter.measure(async () => {
        const { count, over } = countdown(jobs)
        worker = defineWorker(TYPE, () => undefined, { ...options, onCompleted: count })
        void worker.start()
        await over
      }),
    async idle(onStart) {
      worker = defineWorker(TYPE, onStart, options)
      void worker.start()
    },
    async close() {
      await worker?.stop()
      // Its loop ends after the wait that `stop` cut short.
      await new Promise((resolve) => setTimeout(resolve, 10))
      queue.close()
    },
  }
}

const variant = (synchronous: 'FULL' | 'NORMAL', most: number): System => ({
  id: `plainjob-${synchronous.toLowerCase()}`,
  title: `plainjob, synchronous ${synchronous}`,
  settings: `\`synchronous = ${synchronous}\`, polls every 1 ms, Node's own SQLite, one job at a time`,
  backend: 'sqlite',
  kinds: { drain: most, 'fail-once': 'none', submit: ALL, bulk: ALL, latency: ALL },
  run: async (order) => runQueue(await openPlainjob(order.address, synchronous), order),
})

export const PLAINJOB: readonly System[] = [variant('FULL', 20_000), variant('NORMAL', 100_000)]
