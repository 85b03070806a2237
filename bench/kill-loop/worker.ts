import { openWork } from './work.ts'

const { app } = openWork(String(process.argv[2]))
await app.work({ concurrency: 10, pollMs: 20, maintenanceMs: 200 })
console.log('ready')
