import { appendFile, type FileHandle, mkdir, open } from 'node:fs/promises'
import { join } from 'node:path'
import { errnoOf } from './paths.ts'
import { readSpec } from './spec/spec.ts'
import { ENCODE_SHARE } from './transcode/encode.ts'

/** The folder of one job: nothing in it is ever removed or changed afterwards, only added to. */
export const folderOf = (jobs: string, id: string): string => join(jobs, id)
export const stderrLogOf = (jobs: string, id: string): string => join(folderOf(jobs, id), 'stderr.log')

/** P24, P27: the programs that ran and their output, in order, up to the failure. Programs append to the same file. */
export class Trace {
  readonly path: string
  readonly #folder: string

  constructor(jobs: string, id: string) {
    this.#folder = folderOf(jobs, id)
    this.path = stderrLogOf(jobs, id)
  }

  async say(nowMs: number, text: string): Promise<void> {
    await mkdir(this.#folder, { recursive: true })
    await appendFile(this.path, `# ${new Date(nowMs).toISOString()} ${text.replace(/\p{Cc}+/gu, ' ')}\n`, {
      mode: 0o600,
    })
  }
}

/** Where a running job is: "clip 2 of 5, encode". */
export interface ClipPosition {
  clip: number
  of: number
  stage: string
}

const LOG_END_BYTES = 65_536
/** Tolerance for rounding: two fifths of a whole may be slightly less. */
const ROUNDING = 1e-9

/**
 * P26: the worker's log is the best source, if it is on this machine. Otherwise the progress of the job is good
 * enough.
 */
export async function clipPositionOf(
  jobs: string,
  { id, progress, spec }: { id: string; progress: number; spec: unknown },
): Promise<ClipPosition | null> {
  const of = readSpec(spec).spec?.sources.length ?? 0
  if (of === 0) return null
  const lines = await endOf(stderrLogOf(jobs, id))
  const [, clip, stage] = [...lines.matchAll(/^# \S+ clip (\d+) of \d+, (\w+):/gm)].at(-1) ?? []
  if (clip !== undefined && stage !== undefined) return { clip: Number(clip), of, stage }
  return positionByProgress(progress, of)
}

/** Derives the stage from the progress: all clips are encoded first, and then all are verified. */
export function positionByProgress(progress: number, of: number): ClipPosition {
  const isEncoding = progress < ENCODE_SHARE
  const share = isEncoding ? progress / ENCODE_SHARE : (progress - ENCODE_SHARE) / (1 - ENCODE_SHARE)
  const clip = Math.min(of, Math.floor(share * of + ROUNDING) + 1)
  return { clip, of, stage: isEncoding ? 'encode' : 'verify' }
}

async function endOf(path: string): Promise<string> {
  let file: FileHandle
  try {
    file = await open(path, 'r')
  } catch (error) {
    if (['ENOENT', 'EACCES'].includes(errnoOf(error))) return ''
    throw error
  }
  try {
    const { size } = await file.stat()
    const end = Buffer.alloc(LOG_END_BYTES)
    const { bytesRead } = await file.read(end, 0, LOG_END_BYTES, Math.max(0, size - LOG_END_BYTES))
    return end.toString('utf8', 0, bytesRead)
  } finally {
    await file.close()
  }
}
