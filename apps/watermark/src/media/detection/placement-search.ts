import { type Placement, placed, type Square } from './placement.ts'

/** How much larger the source may be than what the suspect shows of it, or smaller. */
const SCALES = [0.7, 0.8, 0.9, 1, 1.06, 1.12, 1.2, 1.33, 1.5, 1.75, 2]
/** Along one axis; along the other, the picture may have been left as it was. */
const SIZES: readonly (readonly [x: number, y: number])[] = [
  ...SCALES.map((scale) => [scale, scale] as const),
  ...SCALES.filter((scale) => scale !== 1).flatMap((scale) => [[scale, 1] as const, [1, scale] as const]),
]
const FLIPS = [
  [1, 1],
  [-1, 1],
  [1, -1],
  [-1, -1],
] as const
/** In halves of the picture; the fit finds the rest of the way. */
const SHIFT_STEP = 0.125

/** The likeliest places of one picture in another, by trying many, with pictures that are small. */
export function coarsePlacements(suspect: Square, source: Square, count: number): Placement[] {
  const tried: { placement: Placement; likeness: number }[] = []
  for (const [flipX, flipY] of FLIPS) {
    for (const [scaleX, scaleY] of SIZES) {
      for (const shiftX of shifts(scaleX)) {
        for (const shiftY of shifts(scaleY)) {
          const placement: Placement = [flipX * scaleX, 0, shiftX, 0, flipY * scaleY, shiftY]
          tried.push({ placement, likeness: agreement(placed(suspect, placement), source.samples) })
        }
      }
    }
  }
  return tried
    .sort((one, other) => other.likeness - one.likeness)
    .slice(0, count)
    .map(({ placement }) => placement)
}

/** A cropped picture shows any part of the source, and a framed one shows it anywhere, but whole. */
function shifts(scale: number): number[] {
  const reach = Math.ceil(Math.abs(scale - 1) / SHIFT_STEP)
  return Array.from({ length: 2 * reach + 1 }, (_, i) => (i - reach) * SHIFT_STEP)
}

/** How much of a picture must be seen to say anything. */
const SEEN_MIN = 0.15

/** The correlation of two pictures where the first one reaches: from -1 to 1, 0 where there is too little to say. */
export function agreement(seen: Float32Array, known: Float32Array): number {
  let [count, sumA, sumB, sumAA, sumBB, sumAB] = [0, 0, 0, 0, 0, 0]
  for (let i = 0; i < seen.length; i++) {
    const [a, b] = [seen[i] as number, known[i] as number]
    if (Number.isNaN(a)) continue
    count++
    sumA += a
    sumB += b
    sumAA += a * a
    sumBB += b * b
    sumAB += a * b
  }
  if (count < seen.length * SEEN_MIN) return 0
  const [ownA, ownB] = [sumAA - (sumA * sumA) / count, sumBB - (sumB * sumB) / count]
  return ownA * ownB <= 1e-6 ? 0 : (sumAB - (sumA * sumB) / count) / Math.sqrt(ownA * ownB)
}
