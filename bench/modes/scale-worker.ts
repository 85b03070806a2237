import { openBench } from '../measures.ts'

/** A worker process of `scale.ts`: it starts when it is told to, and says how many jobs it has completed. */
export interface WorkerReport {
  done: number
  /** When its last outcome was durable. */
  lastMs: number
  /** Processor time since it was told to start. */
  nodeUs: number
}

const REPORT_MS = 20

const { app } = await openBench(process.argv[2] as string)
let [done, lastMs] = [0, 0]
const worker = await app.makeWorker({
  onOutcome: ({ change }) => {
    if (change.to !== 'complete') return
    done++
    lastMs = Date.now()
  },
})

process.on('message', (said) => {
  if (said === 'go') void start()
  else void app.stop().then(() => process.exit(0))
})
process.send?.('ready')

async function start(): Promise<void> {
  const began = process.cpuUsage()
  setInterval(() => {
    const { user, system } = process.cpuUsage(began)
    const report: WorkerReport = { done, lastMs, nodeUs: user + system }
    process.send?.(report)
  }, REPORT_MS)
  await worker.start()
}
