import { setImmediate as turn } from 'node:timers/promises'
import { SIDE, type SmallFrame } from './frames.ts'
import { halved, middle, type Placement, placed, type Seen, type Square, see, UNMOVED } from './placement.ts'
import { detailOf, nearest, observe, solved } from './residual.ts'

/** The number of suspect frames that are examined. The picture has the same position in all of them. */
const LOOKS = 3
/** Above this agreement the suspect is not moved, and no search is needed. */
const IN_PLACE = 0.97
/** From here on, nothing better is searched for. */
const FOUND = 0.8
/** The minimum agreement of a placement, and its minimum gain over no placement. */
const AGREEMENT_MIN = 0.5
const GAIN_MIN = 0.02
/** How many of the coarse placements of a pair of frames are worked out. */
const TRIED = 6

/**
 * Finds the position of the source's picture in the suspect: cropped, framed, mirrored, slightly turned, stretched.
 * It compares only the pictures and does not use the tokens, so it cannot favour any of them.
 */
export async function register(
  suspect: readonly SmallFrame[],
  source: readonly SmallFrame[],
  signal: AbortSignal | undefined,
): Promise<Placement> {
  const looks = spread(suspect, LOOKS)
  const details = new Map<SmallFrame, SmallFrame>()
  const score = (placement: Placement) => mean(looks.map((look) => likeness(look, placement, source, details)))
  const unmoved = score(UNMOVED)
  if (unmoved >= IN_PLACE) return UNMOVED

  let best: { placement: Placement; score: number } = { placement: UNMOVED, score: unmoved }
  search: for (const look of looks) {
    for (const original of candidates(look, suspect, source)) {
      await turn()
      signal?.throwIfAborted()
      const coarse = coarsely(look, original)
      const placement = coarse && fitted([pairOf(look, original)], coarse)
      const reached = placement === null ? 0 : score(placement)
      if (placement !== null && reached > best.score) best = { placement, score: reached }
      if (best.score >= FOUND) break search
    }
  }
  if (best.score < Math.max(AGREEMENT_MIN, unmoved + GAIN_MIN)) return UNMOVED
  const pairs = looks.map((look) => pairOf(look, nearest(placed(square(look), best.placement), source) as SmallFrame))
  const together = fitted(pairs, best.placement)
  return together !== null && score(together) > best.score ? together : best.placement
}

const square = (samples: SmallFrame): Square => ({ side: SIDE, samples })
const quarter = (frame: SmallFrame): Square => halved(halved(square(frame)))
const pairOf = (suspect: SmallFrame, source: SmallFrame): Pair => ({ suspect: square(suspect), source: square(source) })
const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length

/** The best of the likeliest, in pictures so small that it takes no time. */
function coarsely(look: SmallFrame, original: SmallFrame): Placement | null {
  const pair: Pair = { suspect: quarter(look), source: quarter(original) }
  let best: Placement | null = null
  let most = 0
  for (const start of coarsePlacements(pair.suspect, pair.source, TRIED)) {
    const placement = fittedAt([pair], start)
    if (placement === null) continue
    const likeness = agreement(placed(pair.suspect, placement), pair.source.samples)
    if (likeness > most) [best, most] = [placement, likeness]
  }
  return best
}

/** From the middle of as many equal parts. */
function spread<T>(all: readonly T[], count: number): T[] {
  const some = Math.min(count, all.length)
  return Array.from({ length: some }, (_, i) => all[Math.floor(((i + 0.5) * all.length) / some)] as T)
}

/** The agreement of fine detail with the nearest frame of the source. */
function likeness(
  look: SmallFrame,
  placement: Placement,
  source: readonly SmallFrame[],
  details: Map<SmallFrame, SmallFrame>,
): number {
  const detail = (frame: SmallFrame): SmallFrame => {
    const known = details.get(frame) ?? detailOf(frame)
    details.set(frame, known)
    return known
  }
  const original = nearest(placed(square(look), placement), source)
  if (original === null) return 0
  return agreement(placed(square(detail(look)), placement), detail(original))
}

/** Frames of the source that may show the same moment: the position of the picture is not known yet. */
function candidates(look: SmallFrame, suspect: readonly SmallFrame[], source: readonly SmallFrame[]): Set<SmallFrame> {
  const share = suspect.indexOf(look) / suspect.length
  const sameMoment = source[Math.floor(share * source.length)] as SmallFrame
  const sameTones = source.reduce((best, frame) =>
    toneDistance(frame, look) < toneDistance(best, look) ? frame : best,
  )
  return new Set([sameMoment, nearest(look, source) as SmallFrame, sameTones])
}

/** Bright and dark areas are as large in a mirrored picture, and almost in one that was cropped a little. */
function toneDistance(one: SmallFrame, other: SmallFrame): number {
  const [a, b] = [tones(one), tones(other)]
  return a.reduce((sum, value, i) => sum + Math.abs(value - (b[i] as number)), 0)
}

const kept = new WeakMap<SmallFrame, Float32Array>()
const TONES = 32

function tones(frame: SmallFrame): Float32Array {
  const known = kept.get(frame)
  if (known !== undefined) return known
  const counts = new Float32Array(TONES)
  for (const value of frame) {
    const tone = Math.min(TONES - 1, Math.floor((value / 256) * TONES))
    counts[tone] = (counts[tone] as number) + 1
  }
  // How many are at most so bright: a film that was made a little lighter is still near.
  for (let i = 1; i < TONES; i++) counts[i] = (counts[i] as number) + (counts[i - 1] as number)
  kept.set(frame, counts)
  return counts
}

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
/** In halves of the picture; the fit refines it. */
const SHIFT_STEP = 0.125

/** The likeliest places of one picture in another, by trying many, with pictures that are small. */
function coarsePlacements(suspect: Square, source: Square, count: number): Placement[] {
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
function agreement(seen: Float32Array, known: Float32Array): number {
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

/** The same moment in both files. */
interface Pair {
  suspect: Square
  source: Square
}

const ROUNDS_MAX = 12
/** In halves of the picture; a fortieth of a sample. */
const STILL = 0.0004
/** Differences above this are something else than a wrong place, such as a text that was drawn. */
const ODD = 12

/** Moves, stretches and turns a placement until the pictures agree best; coarse pictures first. Null if they never do. */
function fitted(pairs: readonly Pair[], start: Placement): Placement | null {
  const halves = pairs.map(smaller)
  let placement: Placement | null = start
  for (const level of [halves.map(smaller), halves, pairs]) placement = placement && fittedAt(level, placement)
  return placement
}

const smaller = ({ suspect, source }: Pair): Pair => ({ suspect: halved(suspect), source: halved(source) })

/** The same, at the size that the pictures have. */
function fittedAt(pairs: readonly Pair[], start: Placement): Placement | null {
  let placement = start
  // The suspect may be lighter and of more contrast; that is fitted together with the place.
  let [gain, offset] = [1, 0]
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const step = stepFrom(pairs, placement, gain, offset)
    if (step === null) return null
    placement = placement.map((value, i) => value + (step[i] as number)) as unknown as Placement
    gain += step[6] as number
    offset += step[7] as number
    if (!isPlausible(placement)) return null
    if (step.subarray(0, 6).every((value) => Math.abs(value) < STILL)) break
  }
  return placement
}

function stepFrom(
  pairs: readonly Pair[],
  [a, b, c, d, e, f]: Placement,
  gain: number,
  offset: number,
): Float64Array | null {
  const matrix = new Float64Array(64)
  const right = new Float64Array(8)
  const factors = new Float64Array(8)
  const seen: Seen = { value: 0, alongX: 0, alongY: 0 }
  for (const { suspect, source } of pairs) {
    const { side, samples } = source
    for (let i = 0; i < samples.length; i++) {
      const u = middle(i % side, side)
      const v = middle(Math.floor(i / side), side)
      if (!see(suspect, a * u + b * v + c, d * u + e * v + f, seen)) continue
      const [byX, byY] = [gain * seen.alongX, gain * seen.alongY]
      factors[0] = byX * u
      factors[1] = byX * v
      factors[2] = byX
      factors[3] = byY * u
      factors[4] = byY * v
      factors[5] = byY
      factors[6] = seen.value
      factors[7] = 1
      const difference = (samples[i] as number) - gain * seen.value - offset
      observe(matrix, right, factors, difference, 1 / (1 + Math.abs(difference) / ODD))
    }
  }
  return solved(matrix, right)
}

/** Neither so large that hardly a cell is seen, nor so small that cells run into each other, nor turned far. */
function isPlausible([a, b, c, d, e, f]: Placement): boolean {
  const isSized = [a, e].every((scale) => Math.abs(scale) > 0.5 && Math.abs(scale) < 2.6)
  return isSized && Math.abs(b) < 0.5 && Math.abs(d) < 0.5 && Math.abs(c) < 2 && Math.abs(f) < 2
}
