import { storm } from '/work/exp/fb/bench/fetchbox-storm/storm.ts'
import { mkdtempSync } from 'node:fs'
const t=performance.now()
const folder = mkdtempSync('/work/exp/fbs-data/ci-')
const r = await storm({ folder, resources: 300, jobs: 5, proxies: 5, workers: 1, kills: 1, seed: 1, faultShare: 0.1, storage: process.argv[2]??'folder', leaseSec: 2, concurrency: 32, timeoutMs: 400, say: (l)=>console.log(((performance.now()-t)/1000).toFixed(1), l) })
console.log(((performance.now()-t)/1000).toFixed(1), JSON.stringify(r))
