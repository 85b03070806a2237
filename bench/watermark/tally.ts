import { type Judgement, MATCH_Z_MIN } from '../../apps/watermark/src/media/detection/detect.ts'

/** What came out for the copies of many recipients after the same attack. */
export interface Tally {
  copies: number
  /** How often the right token came first, with a match. */
  found: number
  /** The lowest and the middle z of the right token. */
  lowestZ: number
  medianZ: number
  /** The highest z of another recipient, and of a token that nobody has, over all copies. */
  bestWrongZ: number
  bestDecoyZ: number
}

export function tally(judged: readonly { right: string | null; judgement: Judgement }[]): Tally {
  const rights = judged.flatMap(({ right, judgement: { ranking } }) =>
    ranking.filter(({ tokenId }) => tokenId === right).map(({ z }) => z),
  )
  const wrongs = judged.flatMap(({ right, judgement: { ranking } }) =>
    ranking.filter(({ tokenId }) => tokenId !== right).map(({ z }) => z),
  )
  const found = judged.filter(
    ({ right, judgement: { verdict, ranking } }) => verdict === 'match' && ranking[0]?.tokenId === right,
  )
  return {
    copies: judged.length,
    found: found.length,
    lowestZ: Math.min(...rights),
    medianZ: median(rights),
    bestWrongZ: Math.max(...wrongs),
    bestDecoyZ: Math.max(...judged.map(({ judgement }) => judgement.bestDecoyZ)),
  }
}

export function inWords({ copies, found, lowestZ, medianZ, bestWrongZ, bestDecoyZ }: Tally): string {
  const rights = Number.isFinite(lowestZ) ? `z ${lowestZ.toFixed(1)} (${medianZ.toFixed(1)})` : ''
  const wrong = Math.max(bestWrongZ, bestDecoyZ)
  return `${found}/${copies} ${rights} wrong ${wrong.toFixed(1)}${wrong >= MATCH_Z_MIN ? ' !' : ''}`.padStart(34)
}

export function median(figures: readonly number[]): number {
  return figures.toSorted((a, b) => a - b)[Math.floor(figures.length / 2)] ?? Number.NaN
}
