import { execFile } from 'node:child_process'
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeEach, onTestFinished } from 'vitest'
import { MediaError } from '../../shared/src/media/errors.ts'
import { findPrograms, type MediaPrograms } from '../../shared/src/media/programs.ts'

const found = await findPrograms().catch((error: unknown) => error)
const whyNot = found instanceof MediaError ? `${found.message} ${found.detail}` : ''
if (whyNot === '' && found instanceof Error) throw found

/** Only read by tests that run where both are. */
export const programs = found as MediaPrograms

/** Leaves the tests of a file out, with the reason, on a machine without ffmpeg. */
export function needsFfmpeg(): void {
  beforeEach(({ skip }) => {
    if (whyNot !== '') skip(whyNot)
  })
}

const MADE = ['-c:v', 'libx264', '-preset', 'ultrafast', '-pix_fmt', 'yuv420p', '-threads', '1']

export interface ClipOptions {
  size?: string
  frames?: number
  /** ffmpeg's options of the output, instead of a plain H.264. */
  video?: readonly string[]
  /** How many sound tracks. */
  sound?: number
  filter?: string
}

/** A real clip of a few frames. */
export async function makeClip(path: string, given: ClipOptions = {}): Promise<string> {
  if (whyNot !== '') return path
  const { size = '64x48', frames = 6, video = MADE, sound = 0, filter } = given
  const seconds = frames / 25
  await ffmpeg([
    ...['-f', 'lavfi', '-i', `testsrc2=s=${size}:r=25:d=${seconds}`],
    ...Array.from({ length: sound }, (_, at) => [
      '-f',
      'lavfi',
      '-i',
      `sine=f=${300 + at}:r=48000:d=${seconds}`,
    ]).flat(),
    ...['-map', '0:v', ...Array.from({ length: sound }, (_, at) => ['-map', `${at + 1}:a`]).flat()],
    ...(filter === undefined ? [] : ['-vf', filter]),
    ...[...video, ...(sound === 0 ? [] : ['-c:a', 'pcm_s16le']), path],
  ])
  return path
}

export async function ffmpeg(args: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(programs.ffmpeg.path, ['-nostdin', '-v', 'error', '-y', ...args])
  return stdout
}

/**
 * For one test, ffmpeg is this script: `$FFMPEG` is the real one, `$OUT` the file it shall write, `$STAGE` what it is
 * asked to do. It must do what it does by itself; where it says nothing, the real one runs.
 */
export function withFfmpeg(folder: string, script: string): void {
  const text = `FFMPEG='${programs.ffmpeg.path}'
case "$*" in *streamhash*) STAGE=verify ;; *"-f null -"*) STAGE=count ;; *-version*) exec "$FFMPEG" "$@" ;; *) STAGE=encode ;; esac
for OUT in "$@"; do :; done
${script}
exec "$FFMPEG" "$@"`
  standIn('FFMPEG_PATH', folder, text)
}

/** The same for ffprobe, which is asked for what stands in its arguments. */
export function withFfprobe(folder: string, script: string): void {
  const real = `'${programs.ffprobe.path}' "$@"`
  standIn('FFPROBE_PATH', folder, `case "$*" in *-version*) exec ${real} ;; esac\n${script}\nexec ${real}`)
}

function standIn(setting: 'FFMPEG_PATH' | 'FFPROBE_PATH', folder: string, script: string): void {
  const path = join(folder, `${setting}-${Math.random().toString(36).slice(2)}`)
  writeFileSync(path, `#!/bin/sh\n${script}\n`)
  chmodSync(path, 0o755)
  const before = process.env[setting]
  process.env[setting] = path
  onTestFinished(() => {
    if (before === undefined) delete process.env[setting]
    else process.env[setting] = before
  })
}
