import { appendFileSync } from 'node:fs'
import { openWork } from './work.ts'

const [store, refused] = process.argv.slice(2)
const { app } = openWork(String(store))
await app.work({
  concurrency: 10,
  pollMs: 20,
  maintenanceMs: 200,
  onOutcome: ({ jobId, attempt, answer }) => {
    if (answer === 'lost') appendFileSync(String(refused), `${jobId} ${attempt}\n`)
  },
})
console.log('ready')
