import { randomFillSync } from 'node:crypto'
import type { Chance } from './chance.ts'

export type MakeId = () => string

/** Fills with cryptographic randomness, or with a seeded one so that a test can name its ids. */
export type FillRandom = (bytes: Uint8Array) => void

const ID_BYTES = 16
const POOL_IDS = 256
const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))

export const fillFromSystem: FillRandom = (bytes) => void randomFillSync(bytes)

export const fillFromChance =
  (chance: Chance): FillRandom =>
  (bytes) => {
    for (let i = 0; i < bytes.length; i++) bytes[i] = Math.floor(chance() * 256)
  }

/**
 * UUIDv7 ids that sort by the order in which one process made them: the 12 bits after the version count within a
 * millisecond (RFC 9562, method 1), so that new rows are appended to the store's index instead of spread over it.
 */
export function idMaker(nowMs: () => number, fill: FillRandom): MakeId {
  const pool = new Uint8Array(ID_BYTES * POOL_IDS)
  let used = pool.length
  let lastMs = 0
  let counter = 0

  return () => {
    if (used === pool.length) {
      fill(pool)
      used = 0
    }
    const ms = nowMs()
    if (ms > lastMs) {
      lastMs = ms
      counter = 0
    } else if (++counter > 0xfff) {
      // The millisecond is full, or the clock stepped back: borrow the next one rather than repeat an order.
      lastMs++
      counter = 0
    }
    const at = used
    used += ID_BYTES
    const byte = (i: number) => HEX[pool[at + i] as number]
    const time = lastMs.toString(16).padStart(12, '0')
    const variant = HEX[((pool[at] as number) & 0x3f) | 0x80]
    return (
      `${time.slice(0, 8)}-${time.slice(8)}-7${counter.toString(16).padStart(3, '0')}-${variant}${byte(1)}-` +
      `${byte(2)}${byte(3)}${byte(4)}${byte(5)}${byte(6)}${byte(7)}`
    )
  }
}
