import { pipeline, type Readable, Transform } from 'node:stream'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** So much may lie around; what is collected then is young, which takes a millisecond. */
const BYTES_MAX = 8 * 2 ** 20

let collect: ((options: { type: 'minor' }) => void) | undefined
let passed = 0

/**
 * Counts bytes that went through this process. Each was in a buffer, and buffers go only when V8 tidies up its young
 * objects, of which they are the smallest part: four uploads of 50 MB left 60 MB of memory that nobody needed.
 */
export function bytesPassed(bytes: number): void {
  passed += bytes
  if (passed < BYTES_MAX) return
  passed = 0
  collect ??= exposed()
  collect({ type: 'minor' })
}

/** The same stream, with its bytes counted on the way; the end of one is the end of the other. */
export function counted(source: Readable): Readable {
  const passage = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytesPassed(chunk.length)
      done(null, chunk)
    },
  })
  return pipeline(source, passage, () => undefined)
}

/** The collector is not to be had otherwise by a process that was started without a flag for it. */
function exposed(): NonNullable<typeof collect> {
  setFlagsFromString('--expose-gc')
  return runInNewContext('gc') as NonNullable<typeof collect>
}
