import { createHash, createHmac } from 'node:crypto'
import { MediaError } from '@redress/shared/media/errors'

/**
 * The invisible mark is a grid of cells over the whole picture, each a little lighter or darker. Which, only the key
 * tells. The grid has the same number of cells for every size of picture, so scaling leaves each where it was.
 */
export const GRID = 64
const CELLS = GRID * GRID

/** How much, in steps of 255. In large pictures alternately one and two, because a half cannot be drawn. */
const LARGE_STEPS = [1, 2] as const
/** The cells of a small picture are a few pixels wide, and so fine a grain is seen sooner. */
const SMALL_STEPS = [1, 1] as const
const LARGE_PIXELS_MIN = 500_000

const KEY_BYTES_MIN = 16

/** +1 or -1 for every cell. Without the key, the patterns of the tokens look like independent coin flips. */
export function chipsOf(key: string | Uint8Array, tokenId: string): Int8Array {
  if (Buffer.byteLength(key) < KEY_BYTES_MIN) {
    throw new MediaError('KEY_TOO_SHORT', 'The key of the invisible mark is too short.', { stage: 'prepare' })
  }
  const seed = createHmac('sha256', key).update(`invisible mark 1\n${tokenId}`).digest()
  const bits = createHash('shake256', { outputLength: CELLS / 8 })
    .update(seed)
    .digest()
  const chips = new Int8Array(CELLS)
  for (let i = 0; i < CELLS; i++) chips[i] = ((bits[i >> 3] as number) >> (i & 7)) & 1 ? 1 : -1
  return chips
}

export interface PatternPicture {
  /** Of the picture that it is added to. */
  width: number
  height: number
  /** How many planes carry the pattern, and how many bytes after them carry nothing. */
  planes: number
  flatBytes: number
}

/** One small picture to be enlarged and added, 128 being nothing. */
export function patternPicture(chips: Int8Array, { width, height, planes, flatBytes }: PatternPicture): Uint8Array {
  const steps = width * height < LARGE_PIXELS_MIN ? SMALL_STEPS : LARGE_STEPS
  const picture = new Uint8Array(CELLS * planes + flatBytes).fill(128)
  for (let plane = 0; plane < planes; plane++) {
    for (let i = 0; i < CELLS; i++) {
      const step = steps[((i % GRID) + Math.floor(i / GRID)) % 2] as number
      picture[plane * CELLS + i] = 128 + step * (chips[i] as number)
    }
  }
  return picture
}
