import { createHash } from 'node:crypto'
import { pipeline, type Readable, Transform } from 'node:stream'
import { artifactCorrupt, rangeInvalid } from './artifact-store.ts'

/** A checksum that bytes are run through; `matches` is asked after the last of them. */
export interface Check {
  update(chunk: Uint8Array): void
  matches(): boolean
}

export function sha256Check(expected: string): Check {
  const hash = createHash('sha256')
  return { update: (chunk) => void hash.update(chunk), matches: () => hash.digest('hex') === expected }
}

/**
 * The same bytes, failing at their end if they are not what was stored. The last of them are held back until then: who
 * counts what arrives must not have all of it before it is known to be wrong.
 */
export function checked(body: Readable, key: string, check: Check): Readable {
  let last: Uint8Array | undefined
  const checking = new Transform({
    transform(chunk, _encoding, done) {
      check.update(chunk)
      if (last !== undefined) this.push(last)
      last = chunk
      done()
    },
    flush(done) {
      if (check.matches()) done(null, last)
      else done(artifactCorrupt(key))
    },
  })
  return pipeline(body, checking, () => undefined)
}

export function checkRange(key: string, { start, end }: { start: number; end?: number | undefined }): void {
  const isRange =
    Number.isSafeInteger(start) && start >= 0 && (end === undefined || (Number.isSafeInteger(end) && end >= start))
  if (!isRange) throw rangeInvalid(key, start, end)
}
