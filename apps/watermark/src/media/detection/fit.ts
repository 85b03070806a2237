import { observe, solved } from './linear.ts'
import { halved, middle, type Placement, type Seen, type Square, see } from './placement.ts'

/** The same moment in both files. */
export interface Pair {
  suspect: Square
  source: Square
}

const ROUNDS_MAX = 12
/** In halves of the picture; a fortieth of a sample. */
const STILL = 0.0004
/** Differences above this are something else than a wrong place, such as a text that was drawn. */
const ODD = 12

/** Moves, stretches and turns a placement until the pictures agree best; coarse pictures first. Null if they never do. */
export function fitted(pairs: readonly Pair[], start: Placement): Placement | null {
  const halves = pairs.map(smaller)
  let placement: Placement | null = start
  for (const level of [halves.map(smaller), halves, pairs]) placement = placement && fittedAt(level, placement)
  return placement
}

const smaller = ({ suspect, source }: Pair): Pair => ({ suspect: halved(suspect), source: halved(source) })

/** The same, at the size that the pictures have. */
export function fittedAt(pairs: readonly Pair[], start: Placement): Placement | null {
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
