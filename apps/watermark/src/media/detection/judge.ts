import { setImmediate as turn } from 'node:timers/promises'
import { chipsOf } from '../pattern.ts'
import type { SmallFrame } from './frames.ts'
import { UNMOVED } from './placement.ts'
import { register } from './register.ts'
import { Residual } from './residual.ts'

interface RankedToken {
  tokenId: string
  /** By how many standard deviations the suspect agrees more with this token's pattern than chance would have it. */
  z: number
}

export interface Judgement {
  verdict: 'match' | 'inconclusive'
  /** Every token, the likeliest first. With 'match', the first is meant. */
  ranking: RankedToken[]
  /** The best of as many tokens that nobody was given: what chance can do with this file. */
  bestDecoyZ: number
  decoys: number
}

export interface Evidence {
  suspect: readonly SmallFrame[]
  /** None, where the source is not at hand. */
  source: readonly SmallFrame[]
  key: string | Uint8Array
  tokens: readonly string[]
  signal?: AbortSignal | undefined
}

/**
 * What a match takes. A token that has nothing to do with the file is a row of fair coins to it, whatever it shows, so
 * by Hoeffding's bound it comes this far less than once in 60 million times.
 */
export const MATCH_Z_MIN = 6

const DECOYS = 1000

/** Compares what is left of a suspect's frames, when their content is taken away, with the pattern of every token. */
export async function judge({ suspect, source, key, tokens, signal }: Evidence): Promise<Judgement> {
  const cells = await residualOf(suspect, source, signal)
  const ranking = await rank(key, tokens, cells, signal)
  ranking.sort((a, b) => b.z - a.z)
  // Their names cannot be those of tokens: no token has a NUL in it.
  const decoys = Array.from({ length: DECOYS }, (_, i) => `decoy\0${i}`)
  const bestDecoyZ = Math.max(...(await rank(key, decoys, cells, signal)).map(({ z }) => z))
  const best = ranking[0]?.z ?? 0
  const isMatch = best >= MATCH_Z_MIN && best > bestDecoyZ
  return { verdict: isMatch ? 'match' : 'inconclusive', ranking, bestDecoyZ, decoys: DECOYS }
}

/** The lease of a job is renewed by the same thread, so it gets its turn between pieces of work. */
async function residualOf(
  suspect: readonly SmallFrame[],
  source: readonly SmallFrame[],
  signal: AbortSignal | undefined,
): Promise<Float32Array> {
  const placement = source.length === 0 ? UNMOVED : await register(suspect, source, signal)
  const residual = new Residual(source, placement)
  for (const [i, frame] of suspect.entries()) {
    residual.add(frame)
    if (i % 8 === 7) await turn()
    signal?.throwIfAborted()
  }
  return residual.cells()
}

async function rank(
  key: string | Uint8Array,
  tokens: readonly string[],
  cells: Float32Array,
  signal: AbortSignal | undefined,
): Promise<RankedToken[]> {
  const deviation = Math.sqrt(cells.reduce((sum, cell) => sum + cell * cell, 0))
  const ranking: RankedToken[] = []
  for (const [i, tokenId] of tokens.entries()) {
    const chips = chipsOf(key, tokenId)
    let sum = 0
    for (let cell = 0; cell < cells.length; cell++) sum += (cells[cell] as number) * (chips[cell] as number)
    // A picture of one colour agrees with nothing.
    ranking.push({ tokenId, z: deviation === 0 ? 0 : sum / deviation })
    if (i % 256 === 255) await turn()
    signal?.throwIfAborted()
  }
  return ranking
}
