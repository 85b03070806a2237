import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import type { MediaRun } from '../../shared/media/ffmpeg.ts'
import { type MediaLimits, mediaLimits } from '../../shared/media/limits.ts'
import { findPrograms, type MediaPrograms } from '../../shared/media/programs.ts'
import { readFrames, type SmallFrame } from './frames.ts'
import { chipsOf } from './pattern.ts'
import { type ProbedMedia, probeMedia } from './probe.ts'
import { Residual } from './residual.ts'
import { inScratch } from './scratch.ts'

export interface DetectOptions {
  /** A video or an image that may be a copy of a marked one. */
  suspect: string
  /** What was marked, if it is still there: with it much weaker marks are found. */
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

export interface RankedToken {
  tokenId: string
  /** By how many standard deviations the suspect agrees more with this token's pattern than chance would have it. */
  z: number
}

export interface Detection {
  verdict: 'match' | 'inconclusive'
  /** Every token, the likeliest first. With 'match', the first is meant. */
  ranking: RankedToken[]
  /** The best of as many tokens that nobody was given: what chance can do with this file. */
  bestDecoyZ: number
  decoys: number
  frames: number
  usedSource: boolean
}

/**
 * What a match takes. A token that has nothing to do with the file is a row of fair coins to it, whatever it shows, so
 * by Hoeffding's bound it comes this far less than once in 60 million times.
 */
export const MATCH_Z_MIN = 6

const DECOYS = 1000
const SUSPECT_FRAMES_MAX = 128
/** A multiple, so that all moments of the suspect are among those of the source, and more, for a copy that was cut. */
const SOURCE_FRAMES_MAX = SUSPECT_FRAMES_MAX * 4

/**
 * Whose copy a file is. Survives being encoded again, made smaller, made lighter or darker, and cut in time (a source
 * of more than about 20 s helps less then). Does not survive what moves the picture under the grid by more than about
 * half a cell, a hundredth of its width: cropping, borders, mirroring, more than a slight rotation, a camera that films
 * a screen. Of a mix of several recipients' copies, each comes out above the line. A file without a mark, or with one
 * of another key or of tokens that were not named, is 'inconclusive'. Figures: docs/guides/watermark-detection.md.
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
  const cells = await residualOf(frames.ofSuspect, frames.ofSource, options.signal)
  const ranking = await rank(options.key, options.tokens, cells, options.signal)
  ranking.sort((a, b) => b.z - a.z)
  // Their names cannot be those of tokens: no token has a NUL in it.
  const decoys = Array.from({ length: DECOYS }, (_, i) => `decoy\0${i}`)
  const bestDecoyZ = Math.max(...(await rank(options.key, decoys, cells, options.signal)).map(({ z }) => z))
  options.onProgress?.(100)
  const best = ranking[0]?.z ?? 0
  return {
    verdict: best >= MATCH_Z_MIN && best > bestDecoyZ ? 'match' : 'inconclusive',
    ranking,
    bestDecoyZ,
    decoys: DECOYS,
    frames: frames.ofSuspect.length,
    usedSource: source !== null,
  }
}

/** The lease of a job is renewed by the same thread, so it gets its turn between pieces of work. */
async function residualOf(
  suspect: readonly SmallFrame[],
  source: readonly SmallFrame[],
  signal: AbortSignal | undefined,
): Promise<Float32Array> {
  const residual = new Residual(source)
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
