import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { killLoop } from './kill-loop/kill-loop.ts'

/** `npm run soak -- --kills 5000 --seed 7`: kills real processes for a long time, then looks for what went wrong. */
const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '5000' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
    workers: { type: 'string', default: '3' },
  },
})

const folder = mkdtempSync(join(tmpdir(), 'redress-soak-'))
const [kills, seed, workers] = [values.kills, values.seed, values.workers].map(Number) as [number, number, number]
console.log(`killing ${kills} processes, seed ${seed}, in ${folder}`)

const { problems, ...numbers } = await killLoop({ folder, kills, seed, workers, say: console.log })
console.log(JSON.stringify(numbers, null, 2))
if (problems.length === 0) {
  console.log('Nothing was lost, nothing was done twice, and every history leads to its job.')
  rmSync(folder, { recursive: true })
} else {
  console.error(`${problems.length} problems; the store is kept in ${folder}:\n${problems.slice(0, 50).join('\n')}`)
  process.exitCode = 1
}
