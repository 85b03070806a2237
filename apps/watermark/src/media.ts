import { createRequire } from 'node:module'
import { type MediaCode, MediaError } from '@redress/shared/media/errors'
import type { Attempt } from 'redress'
import type { Code } from './codes.ts'
import { detect } from './media/detection/detect.ts'
import { fontFor } from './media/fonts.ts'
import { markImage, markVideo } from './media/mark.ts'
import { checkSource } from './media/strict.ts'
import { makeThumbnail } from './media/thumbnail.ts'
import type { Settings } from './settings.ts'

export { MediaError, named } from '@redress/shared/media/errors'
export { MATCH_Z_MIN } from './media/detection/detect.ts'
export { cleanText, isVisible, plainLine } from './media/visible-text.ts'

export type Kind = 'video' | 'image'

export interface Probed {
  kind: Kind
  width: number
  height: number
  /** 0 for an image. */
  durationMs: number
  codec: string
}

export interface MarkRequest {
  source: string
  /** Whole and verified when it is there. */
  target: string
  visibleText: string | null
  invisible: { key: string; tokenId: string } | null
  /** In percent. */
  onProgress(percent: number): void
  signal: AbortSignal
}

interface DetectRequest {
  suspect: string
  /** The unmarked source, if it still exists. */
  source: string | null
  key: string
  tokens: readonly string[]
  workFolder: string
  onProgress(percent: number): void
  signal: AbortSignal
}

interface Detected {
  verdict: 'match' | 'inconclusive'
  /** The likeliest first. */
  ranking: { tokenId: string; z: number }[]
  /** The best score of so many unused tokens: what chance alone reaches with this file. */
  bestDecoyZ: number
  decoys: number
}

/** The interface between campaigns and media processing. Failures are a `MediaError`. */
export interface Media {
  /** Throws if no font can draw a text. */
  checkText(text: string): Promise<void>
  /** Identifies a file. Refuses one that does not decode from its first frame to its last. */
  probe(file: string, signal?: AbortSignal): Promise<Probed>
  thumbnail(source: string, target: string, signal?: AbortSignal): Promise<unknown>
  mark(kind: Kind, request: MarkRequest): Promise<Probed>
  detect(request: DetectRequest): Promise<Detected>
}

/** Marking and searching may take as long as their job may: a program must not be ended before it. */
export function ffmpegMedia({ fontFile, attemptMs }: Pick<Settings, 'fontFile' | 'attemptMs'>): Media {
  const limits = { workTimeoutMs: attemptMs }
  const fontOf = (text: string) => fontFor(text, [...(fontFile === null ? [] : [fontFile]), shippedFont()])
  return {
    probe: (file, signal) => checkSource(file, { signal }),
    thumbnail: (source, target, signal) => makeThumbnail({ source, target, signal }),
    checkText: async (text) => void (await fontOf(text)),
    async mark(kind, { visibleText, invisible, ...request }) {
      const visible = visibleText === null ? undefined : { text: visibleText, fontFile: await fontOf(visibleText) }
      const mark = kind === 'video' ? markVideo : markImage
      return mark({ ...request, limits, visible, invisible: invisible ?? undefined })
    },
    detect: ({ source, ...request }) => detect({ ...request, limits, source: source ?? undefined }),
  }
}

function shippedFont(): string {
  try {
    return createRequire(import.meta.filename).resolve('dejavu-fonts-ttf/ttf/DejaVuSans.ttf')
  } catch (cause) {
    const message = 'The font for visible watermarks is not there.'
    throw new MediaError('FONT_MISSING', message, { stage: 'prepare', detail: 'WATERMARK_FONT is not set.', cause })
  }
}

/** Maps a failure of the media code to a failure code of a copy. */
const CODE_OF: Readonly<Record<MediaCode, Code>> = {
  SOURCE_MISSING: 'SOURCE_MISSING',
  SOURCE_CORRUPT: 'SOURCE_CORRUPT',
  // These were checked at the upload, so a failure now means that the file is not the one that was probed.
  SOURCE_UNSUPPORTED: 'SOURCE_CORRUPT',
  SOURCE_ANIMATED: 'SOURCE_CORRUPT',
  SOURCE_TOO_LARGE: 'SOURCE_CORRUPT',
  TEXT_UNUSABLE: 'TEXT_UNUSABLE',
  TEXT_UNDRAWABLE: 'TEXT_UNDRAWABLE',
  KEY_TOO_SHORT: 'ENCODE_FAILED',
  PROGRAM_MISSING: 'PROGRAM_MISSING',
  FONT_MISSING: 'PROGRAM_MISSING',
  OUT_OF_MEMORY: 'OUT_OF_MEMORY',
  TIMED_OUT: 'TIMEOUT',
  DISK_FULL: 'DISK_FULL',
  WRITE_FAILED: 'WRITE_FAILED',
  OUTPUT_WRONG: 'VERIFICATION_FAILED',
  MEDIA_FAILED: 'ENCODE_FAILED',
}

/** Ends the attempt with the code of a `MediaError`. Other errors are thrown on. */
export function failWithMedia(attempt: Attempt<Code>, error: unknown): never {
  if (!(error instanceof MediaError)) throw error
  const { code, stage, exitCode, signal, stderrTail, message, detail } = error
  attempt.fail(CODE_OF[code], {
    detail: detail === '' ? message : `${message} ${detail}`,
    cause: error,
    context: { mediaCode: code, mediaStage: stage, exitCode, signal, stderrTail },
  })
}
