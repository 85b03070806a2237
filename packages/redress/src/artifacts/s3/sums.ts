import { createHash, type Hash } from 'node:crypto'
import type { HeadObjectCommandOutput } from '@aws-sdk/client-s3'
import { type Check, sha256Check } from '../checksum.ts'

/**
 * What we tell the store about an artifact, in its metadata.
 *
 * The SHA-256 of the whole is there when it was known before the upload began: for an artifact of one part, or when the
 * caller announced it. Metadata cannot be added at the end of an upload in parts, so for the rest the store's own sum of
 * the parts' sums serves, and the size of a part is kept to work it out again.
 */
export const SHA256 = 'redress-sha256'
export const PART_BYTES = 'redress-part-bytes'
/** Which put this was: after a lost answer it tells whether the object that is there is ours. */
export const PUT_ID = 'redress-put'

export function sha256Of(head: Pick<HeadObjectCommandOutput, 'Metadata'>): string | null {
  return head.Metadata?.[SHA256] ?? null
}

/** How to find out whether bytes are what was stored; null when the store knows nothing to compare with. */
export function checkFor(head: HeadObjectCommandOutput): Check | null {
  const sha256 = sha256Of(head)
  if (sha256 !== null) return sha256Check(sha256)
  const partBytes = Number(head.Metadata?.[PART_BYTES])
  const [sum, parts] = head.ChecksumSHA256?.split('-') ?? []
  if (!(partBytes > 0) || sum === undefined || parts === undefined) return null
  return sumOfPartsCheck(partBytes, `${sum}-${parts}`)
}

/** S3's SHA-256 of an object in parts: of the SHA-256s of its parts, with their number after it. */
function sumOfPartsCheck(partBytes: number, expected: string): Check {
  const whole = createHash('sha256')
  let parts = 0
  let part: Hash | null = null
  let room = 0

  const endPart = () => {
    if (part !== null) whole.update(part.digest())
    part = null
  }
  return {
    update(chunk) {
      for (let at = 0; at < chunk.byteLength; ) {
        if (part === null) {
          part = createHash('sha256')
          parts++
          room = partBytes
        }
        const taken = chunk.subarray(at, at + room)
        part.update(taken)
        at += taken.byteLength
        room -= taken.byteLength
        if (room === 0) endPart()
      }
    },
    matches() {
      endPart()
      return `${whole.digest('base64')}-${parts}` === expected
    },
  }
}
