import { fsyncSync, openSync, writeSync } from 'node:fs'
import { openWork } from './work.ts'

const [store, acknowledged, mostText, ends] = process.argv.slice(2)
const { app, work } = openWork(String(store))
const log = openSync(String(acknowledged), 'a')
let left = Number(mostText)
await app.store()
console.log('ready')

/** Most are quick; some run for so long that they are still at it when a zombie of an earlier attempt wakes up. */
function howLongMs(): number {
  const draw = Math.random()
  if (draw < 0.5) return 0
  return Math.floor(Math.random() * (draw < 0.95 ? 20 : 1_500))
}

while (left > 0) {
  const size = Math.min(left, 1 + Math.floor(Math.random() * 20))
  const inputs = Array.from({ length: size }, () => ({ ms: howLongMs(), isFlaky: Math.random() < 0.1 }))
  const submitted = await work.submitMany(inputs)
  // Only what is on disk here was acknowledged for sure; a line that was cut off by a kill does not count.
  writeSync(log, submitted.map(({ id }) => `${id}\n`).join(''))
  fsyncSync(log)
  left -= size
  await new Promise((resolve) => setTimeout(resolve, Math.random() * 30))
}
if (ends === undefined) {
  // Goes on living, as a web server would that has nothing to submit: somebody will kill it.
  setInterval(() => undefined, 1_000)
} else await app.stop()
