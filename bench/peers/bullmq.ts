import { loadPeer } from './install.ts'
import { ALL, countdown, type Queue, runQueue, type System } from './system.ts'

type Bullmq = typeof import('bullmq')

const NAME = 'noop'

async function openBullmq(url: string, width: number): Promise<Queue> {
  const { Queue: BullQueue, Worker } = await loadPeer<Bullmq>('bullmq')
  const { hostname: host, port } = new URL(url)
  const connection = { host, port: Number(port), maxRetriesPerRequest: null }
  // The second attempt follows at once.
  const queue = new BullQueue(NAME, { connection, defaultJobOptions: { attempts: 2 } })
  await queue.waitUntilReady()
  const start = async (run: (job: { attemptsMade: number }) => void, autorun: boolean) => {
    const worker = new Worker(NAME, async (job) => run(job), { connection, concurrency: width, autorun })
    worker.on('error', (error) => console.error(error))
    await worker.waitUntilReady()
    return worker
  }
  let worker: Awaited<ReturnType<typeof start>> | null = null
  return {
    submitMany: (from, count) =>
      queue.addBulk(Array.from({ length: count }, (_, i) => ({ name: NAME, data: { n: from + i } }))),
    submitOne: (n) => queue.add(NAME, { n }),
    async drain({ jobs, failsOnce, meter }) {
      const { count, over } = countdown(jobs)
      const started = await start(({ attemptsMade }) => {
        if (failsOnce && attemptsMade === 0) throw new Error('it went wrong')
      }, false)
      started.on('completed', count)
      worker = started
      await meter.measure(async () => {
        void started.run()
        await over
      })
    },
    async idle(onStart) {
      worker = await start(onStart, true)
    },
    async close() {
      await worker?.close(true)
      await queue.close()
    },
  }
}

export const BULLMQ: readonly System[] = [
  {
    id: 'bullmq',
    title: 'BullMQ on Redis',
    settings: 'Redis with `appendonly yes` and `appendfsync everysec`: a power failure can lose the last second',
    backend: 'redis',
    kinds: {
      drain: ALL,
      'drain-default': ALL,
      'fail-once': ALL,
      submit: ALL,
      bulk: ALL,
      latency: ALL,
    },
    run: async (order) => {
      const width = order.given.kind === 'drain' || order.given.kind === 'drain-default' ? order.given.width : 10
      return runQueue(await openBullmq(order.address, width), order)
    },
  },
]
