import type { Pool } from 'pg'
import { loadPeer } from './install.ts'
import { ALL, countdown, type DrainOrder, type Queue, runQueue, type System } from './system.ts'

type Graphile = typeof import('graphile-worker')

const TASK = 'noop'

/** `localQueue`: null for the default settings. */
async function openGraphile(url: string, localQueue: number | null, width: number): Promise<Queue> {
  const { Logger, makeWorkerUtils, run } = await loadPeer<Graphile>('graphile-worker')
  const { default: pg } = await loadPeer<{ default: { Pool: new (options: object) => Pool } }>('pg')
  // As its documentation recommends: 10, or two more than the concurrency.
  const pool = new pg.Pool({ connectionString: url, max: Math.max(10, width + 2) })
  const logger = new Logger(() => () => undefined)
  const utils = await makeWorkerUtils({ pgPool: pool, logger })
  await utils.migrate()
  const start = (task: (payload: unknown, helpers: { job: { attempts: number } }) => void) =>
    run({
      pgPool: pool,
      logger,
      noHandleSignals: true,
      taskList: { [TASK]: async (payload, helpers) => task(payload, helpers) },
      preset: {
        worker: {
          concurrentJobs: width,
          ...(localQueue !== null && {
            localQueue: { size: localQueue },
            completeJobBatchDelay: 0,
            failJobBatchDelay: 0,
          }),
        },
      },
    })
  let idle: Awaited<ReturnType<typeof run>> | null = null

  /** Stopping writes what is still batched, so it counts. */
  const attemptAll = ({ jobs, meter }: DrainOrder, fails: boolean): Promise<void> =>
    meter.measure(async () => {
      const { count, over } = countdown(jobs)
      const runner = await start(() => {
        if (fails) throw new Error('it went wrong')
      })
      runner.events.on('job:complete', count)
      await over
      await runner.stop()
    })

  return {
    submitMany: (from, count) =>
      utils.addJobs(Array.from({ length: count }, (_, i) => ({ identifier: TASK, payload: { n: from + i } }))),
    submitOne: (n) => utils.addJob(TASK, { n }),
    async drain(order) {
      if (order.failsOnce) {
        await attemptAll(order, true)
        // A retry waits for 2.7 s at least, which no setting changes. The wait is taken away, and not counted.
        await pool.query('UPDATE graphile_worker._private_jobs SET run_at = now()')
      }
      await attemptAll(order, false)
    },
    async idle(onStart) {
      idle = await start(onStart)
    },
    async close() {
      await idle?.stop()
      await utils.release()
      await pool.end()
    },
  }
}

const variant = (id: string, title: string, localQueue: number | null, kinds: System['kinds']): System => ({
  id,
  title: `graphile-worker, ${title}`,
  settings:
    localQueue === null
      ? 'defaults'
      : `\`localQueue.size\` ${localQueue}, \`completeJobBatchDelay\` and \`failJobBatchDelay\` 0`,
  backend: 'postgres',
  kinds,
  run: async (order) => {
    const width = order.given.kind === 'drain' || order.given.kind === 'drain-default' ? order.given.width : 10
    return runQueue(await openGraphile(order.address, localQueue, width), order)
  },
})

export const GRAPHILE: readonly System[] = [
  variant('graphile', 'default', null, { 'drain-default': ALL, submit: ALL, bulk: ALL, latency: ALL }),
  variant('graphile-500', 'local queue 500', 500, { drain: ALL, 'fail-once': ALL, latency: ALL }),
  variant('graphile-2000', 'local queue 2000', 2000, { drain: ALL, 'fail-once': ALL }),
]
