import { setImmediate as turn } from 'node:timers/promises'
import { fitted, fittedAt, type Pair } from './fit.ts'
import { SIDE, type SmallFrame } from './frames.ts'
import { halved, type Placement, placed, type Square, UNMOVED } from './placement.ts'
import { agreement, coarsePlacements } from './placement-search.ts'
import { detailOf, nearest } from './residual.ts'

/** So many frames of the suspect are looked at; the picture lies in all of them in the same place. */
const LOOKS = 3
/** From here on, the suspect lies where the source does, and nothing is searched for. */
const IN_PLACE = 0.97
/** From here on, nothing better is searched for. */
const FOUND = 0.8
/** A placement must agree so much, and so much better than none, to be believed. */
const AGREEMENT_MIN = 0.5
const GAIN_MIN = 0.02
/** How many of the coarse placements of a pair of frames are worked out. */
const TRIED = 6

/**
 * Finds where the picture of the source lies in that of the suspect: cropped, framed, mirrored, turned a little,
 * stretched. It looks at the pictures alone and knows nothing of tokens, so it cannot favour any of them.
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

/** How well fine detail agrees, with the frame of the source that is the nearest then. */
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

/** Frames of the source that may be the same moment: nothing is known yet of where the picture lies. */
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
