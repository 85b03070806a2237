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

  /** Runs until so many attempts have ended. Stopping stores the outcomes that are still batched, so it counts. */
  const attempt = (attempts: number, { failsOnce, meter }: DrainOrder): Promise<void> =>
    meter.measure(async () => {
      const { count, over } = countdown(attempts)
      const runner = await start((_, { job }) => {
        if (failsOnce && job.attempts === 1) throw new Error('it went wrong')
      })
      runner.events.on('job:complete', count)
      await over
      await runner.stop()
    })
  const left = async (): Promise<number> =>
    Number((await pool.query('SELECT count(*) AS jobs FROM graphile_worker._private_jobs')).rows[0].jobs)

  return {
    submitMany: (from, count) =>
      utils.addJobs(Array.from({ length: count }, (_, i) => ({ identifier: TASK, payload: { n: from + i } }))),
    submitOne: (n) => utils.addJob(TASK, { n }),
    async drain(order) {
      await attempt(order.jobs, order)
      // A retry waits for 2.7 s at least, which no setting changes. The wait is taken away, and not counted. In a long run
      // some retries are due before all first attempts have ended, so there can be a few rounds.
      for (let jobs = await left(); jobs > 0; jobs = await left()) {
        if (!order.failsOnce) throw new Error(`${jobs} jobs are left after the drain.`)
        await pool.query('UPDATE graphile_worker._private_jobs SET run_at = now()')
        await attempt(jobs, order)
      }
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
