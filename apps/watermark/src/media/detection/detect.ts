import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import type { MediaRun } from '@redress/shared/media/ffmpeg'
import { type MediaLimits, mediaLimits } from '@redress/shared/media/limits'
import { findPrograms, type MediaPrograms } from '@redress/shared/media/programs'
import { chipsOf } from '../pattern.ts'
import { type ProbedMedia, probeMedia } from '../probe.ts'
import { inScratch } from '../scratch.ts'
import { readFrames, type SmallFrame } from './frames.ts'
import { UNMOVED } from './placement.ts'
import { register } from './register.ts'
import { Residual } from './residual.ts'

export interface DetectOptions {
  /** A video or an image that may be a copy of a marked one. */
  suspect: string
  /** The unmarked source, if it still exists: with it, much weaker marks are found. */
  source?: string | undefined
  key: string | Uint8Array
  tokens: readonly string[]
  onProgress?: ((percent: number) => void) | undefined
  signal?: AbortSignal | undefined
  limits?: Partial<MediaLimits> | undefined
  programs?: MediaPrograms | undefined
  /** Where small frames are kept meanwhile: a few megabytes. */
  workFolder?: string | undefined
}

export interface Detection extends Judgement {
  frames: number
  usedSource: boolean
}

export const SUSPECT_FRAMES_MAX = 128
/** A multiple, so that all moments of the suspect are among those of the source, and more, for a copy that was cut. */
export const SOURCE_FRAMES_MAX = SUSPECT_FRAMES_MAX * 4

/**
 * Finds out whose copy a file is. The mark survives re-encoding, scaling, changes of brightness, and cuts in time (a
 * source longer than about 20 s then helps less). With the source, it also survives cropping, borders, mirroring and
 * a slight rotation. Without the source, a shift of half a cell (a hundredth of the width) is too much. If copies of
 * several recipients were mixed, each of them scores above the line. A file without a mark, with a mark of another
 * key, or with a token that is not listed is 'inconclusive'. Figures: docs/guides/systems/watermark-detection.md.
 */
export async function detect(options: DetectOptions): Promise<Detection> {
  const limits = mediaLimits(options.limits)
  const programs = options.programs ?? (await findPrograms())
  const run: MediaRun = { limits, signal: options.signal, subject: 'source' }
  const probe = (path: string) => probeMedia(path, { ...options, programs })
  const suspect = await probe(options.suspect)
  const source = options.source === undefined ? null : await probe(options.source)

  const place = join(options.workFolder ?? tmpdir(), 'frames')
  const frames = await inScratch(place, 'detect', async (folder) => {
    const parts = source === null ? 1 : 2
    const read = (media: ProbedMedia, name: string, framesMax: number, part: number) =>
      readFrames({
        ...{ media, framesMax, folder, name, programs, run },
        onProgress: (share) => options.onProgress?.(Math.floor(((part + share) / parts) * 90)),
      })
    const ofSuspect = await read(suspect, 'suspect', SUSPECT_FRAMES_MAX, 0)
    return { ofSuspect, ofSource: source === null ? [] : await read(source, 'source', SOURCE_FRAMES_MAX, 1) }
  })
  const { key, tokens, signal } = options
  const judgement = await judge({ suspect: frames.ofSuspect, source: frames.ofSource, key, tokens, signal })
  options.onProgress?.(100)
  return { ...judgement, frames: frames.ofSuspect.length, usedSource: source !== null }
}

interface RankedToken {
  tokenId: string
  /** By how many standard deviations the suspect agrees more with this token's pattern than chance would have it. */
  z: number
}

export interface Judgement {
  verdict: 'match' | 'inconclusive'
  /** Every token, the likeliest first. With 'match', the first one is the result. */
  ranking: RankedToken[]
  /** The best score of as many unused tokens: what chance alone reaches with this file. */
  bestDecoyZ: number
  decoys: number
}

export interface Evidence {
  suspect: readonly SmallFrame[]
  /** Empty if the source is not available. */
  source: readonly SmallFrame[]
  key: string | Uint8Array
  tokens: readonly string[]
  signal?: AbortSignal | undefined
}

/**
 * The score of a match. For an unrelated token every cell is a fair coin, whatever the file shows. By Hoeffding's
 * bound such a token reaches this score less than once in 60 million times.
 */
export const MATCH_Z_MIN = 6

const DECOYS = 1000

/** Compares the residual of the suspect's frames, without their content, with the pattern of every token. */
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
