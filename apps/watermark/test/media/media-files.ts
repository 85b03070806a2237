import { execFile } from 'node:child_process'
import { chmodSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeEach, expect } from 'vitest'
import { MediaError } from '../../../shared/src/media/errors.ts'
import { findPrograms, type MediaPrograms } from '../../../shared/src/media/programs.ts'

export const FONT = join(import.meta.dirname, '../../../../node_modules/dejavu-fonts-ttf/ttf/DejaVuSans.ttf')
export const KEY = 'the key of one campaign, and of no other'

const found = await findPrograms().catch((error: unknown) => error)
const whyNot = found instanceof MediaError ? `${found.message} ${found.detail}` : ''
if (whyNot !== '') console.warn(`Nothing is tried on real media: ${whyNot}`)
else if (found instanceof Error) throw found

export const isHere = whyNot === ''
/** Only read by tests that run where both are. */
export const programs = found as MediaPrograms

/** Leaves the tests of a file out, with the reason, on a machine without ffmpeg. */
export function needsFfmpeg(): void {
  beforeEach(({ skip }) => {
    if (!isHere) skip(whyNot)
  })
}

/** A folder for all tests of a file. */
export function mediaFolder(): { folder: string; file: (name: string) => string } {
  const folder = mkdtempSync(join(tmpdir(), 'redress-media-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  return { folder, file: (name) => join(folder, name) }
}

/** Runs the real ffmpeg and gives what it said on stderr. */
export async function ffmpeg(...args: string[]): Promise<string> {
  const quiet = ['-nostdin', '-hide_banner', '-y', ...args]
  return (await promisify(execFile)(programs.ffmpeg.path, quiet, { maxBuffer: 1 << 26 })).stderr
}

/** A clip of generated pictures, written fast and well. */
export async function makeClip(path: string, picture: string, seconds: number, ...more: string[]): Promise<void> {
  const encode = ['-c:v', 'libx264', '-preset', 'ultrafast', '-crf', '14', '-pix_fmt', 'yuv420p', '-threads', '2']
  await ffmpeg(
    '-f',
    'lavfi',
    '-i',
    picture,
    ...more.filter(isInput),
    '-t',
    String(seconds),
    ...encode,
    ...rest(more),
    path,
  )
}

/** What stands before '--' belongs to further inputs. */
const isInput = (_: string, i: number, all: string[]): boolean => i < all.indexOf('--')
const rest = (all: string[]): string[] => all.slice(all.indexOf('--') + 1)

/** An ffmpeg that does something else first: a script that ends by becoming the real one. */
export function disguised(path: string, script: string): MediaPrograms {
  writeFileSync(path, `#!/bin/sh\n${script.replaceAll('FFMPEG', programs.ffmpeg.path)}\n`)
  chmodSync(path, 0o755)
  return { ...programs, ffmpeg: { ...programs.ffmpeg, path } }
}

export async function failureOf(work: Promise<unknown>): Promise<MediaError> {
  const outcome: unknown = await work.then(
    () => 'it went well',
    (error: unknown) => error,
  )
  expect(outcome).toBeInstanceOf(MediaError)
  return outcome as MediaError
}

export const filesIn = (folder: string): string[] => readdirSync(folder).sort()
