import { loadPeer } from './install.ts'
import { ALL, countdown, type DrainOrder, type Queue, runQueue, type System } from './system.ts'

type PgBossModule = typeof import('pg-boss')

const QUEUE = 'noop'
const [BATCH, WORKERS] = [1_000, 3]

/** Batches of 1,000 for 3 workers, woken by NOTIFY; or the defaults: one job per fetch, and a poll every 2 s. */
async function openPgBoss(url: string, isBatch: boolean, width: number): Promise<Queue> {
  const { PgBoss } = await loadPeer<PgBossModule>('pg-boss')
  const boss = new PgBoss({ connectionString: url, max: 20, useListenNotify: isBatch })
  boss.on('error', (error) => console.error(error))
  await boss.start()
  await boss.createQueue(QUEUE, { notify: isBatch, retryLimit: 1, retryDelay: 0, retryBackoff: false })
  const polling = { pollingIntervalSeconds: 0.5, notifyPollingIntervalSeconds: 0.5, burstWhenBatchFull: true }
  const batch = { batchSize: BATCH, localConcurrency: WORKERS, ...polling }

  const drainBatches = async ({ jobs, failsOnce }: DrainOrder): Promise<void> => {
    const { count, over } = countdown(jobs)
    if (failsOnce) {
      await boss.work(QUEUE, { ...batch, perJobResults: true, includeMetadata: true }, async (given) =>
        given.map(({ id, retryCount }) => {
          if (retryCount === 0) return { id, status: 'failed' as const, output: new Error('it went wrong') }
          count()
          return { id, status: 'completed' as const }
        }),
      )
    } else await boss.work(QUEUE, batch, async (given) => given.forEach(count))
    await over
  }

  return {
    submitMany: (from, count) =>
      boss.insert(
        QUEUE,
        Array.from({ length: count }, (_, i) => ({ data: { n: from + i } })),
      ),
    submitOne: (n) => boss.send(QUEUE, { n }),
    drain: (order) =>
      order.meter.measure(async () => {
        if (isBatch) await drainBatches(order)
        else {
          const { count, over } = countdown(order.jobs)
          await boss.work(QUEUE, { localConcurrency: width }, async () => count())
          await over
        }
        // The handlers of the last batches have returned; this waits until their outcomes are stored.
        await boss.offWork(QUEUE, { wait: true })
      }),
    async idle(onStart) {
      await boss.work(QUEUE, isBatch ? batch : { localConcurrency: width }, async () => onStart())
    },
    close: () => boss.stop({ graceful: false }),
  }
}

const variant = (id: string, title: string, settings: string, kinds: System['kinds']): System => ({
  id,
  title: `pg-boss, ${title}`,
  settings,
  backend: 'postgres',
  kinds,
  run: async (order) => {
    const width = order.given.kind === 'drain-default' ? order.given.width : 10
    return runQueue(await openPgBoss(order.address, id === 'pg-boss-batch', width), order)
  },
})

export const PG_BOSS: readonly System[] = [
  // At batch size 1 each of its workers runs one job per polling interval of 2 s, so it gets few jobs.
  variant('pg-boss', 'per job', 'defaults, `localConcurrency` as the case says', {
    'drain-default': 100,
    submit: ALL,
    bulk: ALL,
    latency: 10,
  }),
  variant(
    'pg-boss-batch',
    'batch 1000 x 3',
    `\`batchSize\` ${BATCH}, \`localConcurrency\` ${WORKERS}, \`burstWhenBatchFull\`, polls every 0.5 s, LISTEN/NOTIFY, \`perJobResults\` for failures, \`retryDelay\` 0`,
    { drain: ALL, 'fail-once': ALL, submit: ALL, bulk: ALL, latency: ALL },
  ),
]
