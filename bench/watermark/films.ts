import { execFile } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import type { MediaPrograms } from '../../apps/shared/src/media/programs.ts'
import { markVideo } from '../../apps/watermark/src/media/mark.ts'
import { type Attack, CLIPS } from './clips.ts'

export const KEY = 'a key that only this benchmark has'
export const tokenOf = (recipient: number): string => `recipient-${recipient}`

/** As the product runs ffmpeg: even a line of statistics costs time, and so does being exact to the last bit. */
const AS_MARKED = [
  ...['-fps_mode', 'passthrough', '-flags:v', '+bitexact', '-fflags', '+bitexact'],
  ...['-movflags', '+faststart', '-progress', 'pipe:1'],
]
const LIKENESS = '[0:v]split[a][b];[1:v]split[c][d];[a][c]psnr;[b][d]ssim'
const X264 = ['-c:v', 'libx264', '-preset', 'veryfast', '-pix_fmt', 'yuv420p', '-threads', '2']

/** The copies of one film, kept in a folder. What is there already is not made again. */
export class Films {
  readonly #folder: string
  readonly #programs: MediaPrograms
  readonly #timesFile: string
  readonly source: string
  readonly plain: string

  constructor(folder: string, programs: MediaPrograms) {
    mkdirSync(folder, { recursive: true })
    this.#folder = folder
    this.#timesFile = join(folder, 'times')
    this.#programs = timed(programs, folder, this.#timesFile)
    this.source = join(folder, 'source.mp4')
    this.plain = join(folder, 'plain.mp4')
  }

  /** From a generator's name or a file, in 720p at most. */
  async makeSource(clip: string, seconds: string): Promise<void> {
    const generator = CLIPS[clip]
    const input = generator === undefined ? ['-i', clip] : ['-f', 'lavfi', '-i', generator]
    const size = ['-vf', "scale=-2:'trunc(min(720,ih)/2)*2'", '-an']
    await this.#make(this.source, (out) => this.#ffmpeg(...input, '-t', seconds, ...size, ...X264, '-crf', '16', out))
    await this.#make(this.plain, (out) => this.#encodePlain(out))
  }

  marked(recipient: number): Promise<string> {
    const invisible = { key: KEY, tokenId: tokenOf(recipient) }
    return this.#make(join(this.#folder, `marked-${recipient}.mp4`), (target) =>
      markVideo({ source: this.source, target, invisible, programs: this.#programs }),
    )
  }

  async attacked(of: string, { name, filter, crf, cut }: Attack): Promise<string> {
    const out = join(this.#folder, `${basename(of, '.mp4')}-${name.replaceAll(/\W+/g, '-')}.mp4`)
    const args = [
      ...(cut === undefined ? [] : ['-ss', String(cut)]),
      ...(filter === undefined ? [] : ['-vf', `${filter},scale=trunc(iw/2)*2:trunc(ih/2)*2`]),
    ]
    return this.#make(out, (target) => this.#ffmpeg('-i', of, ...args, ...X264, '-crf', String(crf), target))
  }

  /** The mean of both pictures: what two recipients get who put their copies together. */
  mixed(one: string, other: string): Promise<string> {
    const args = ['-filter_complex', 'blend=all_mode=average', ...X264, '-crf', '23']
    const out = join(this.#folder, `mixed-${basename(one, '.mp4')}.mp4`)
    return this.#make(out, (target) => this.#ffmpeg('-i', one, '-i', other, ...args, target))
  }

  /** Of a marked copy, against the encode of the same settings without the mark. */
  async likeness(copy: string): Promise<{ psnr: number; ssim: number }> {
    const said = await this.#ffmpeg('-v', 'info', '-i', copy, '-i', this.plain, '-lavfi', LIKENESS, '-f', 'null', '-')
    return { psnr: Number(/PSNR y:([\d.]+)/.exec(said)?.[1]), ssim: Number(/SSIM Y:([\d.]+)/.exec(said)?.[1]) }
  }

  /** Processor seconds of both encodes, in turn: others may work on this machine. */
  async encodeTimes(rounds: number): Promise<{ marked: number[]; plain: number[] }> {
    const [marked, plain]: [number[], number[]] = [[], []]
    const target = join(this.#folder, 'timed.mp4')
    for (let round = 0; round < rounds; round++) {
      await this.#encodePlain(target)
      plain.push(this.#lastCpuSeconds())
      const invisible = { key: KEY, tokenId: tokenOf(round) }
      await markVideo({ source: this.source, target, invisible, programs: this.#programs })
      marked.push(this.#lastCpuSeconds())
    }
    return { marked, plain }
  }

  async #encodePlain(out: string): Promise<void> {
    // With the settings of the product, but for the mark.
    await this.#ffmpeg('-nostats', '-threads', '2', '-i', this.source, ...X264, '-crf', '18', ...AS_MARKED, out)
  }

  async #ffmpeg(...args: string[]): Promise<string> {
    const all = ['-nostdin', '-hide_banner', '-y', '-v', 'error', ...args]
    return (await promisify(execFile)(this.#programs.ffmpeg.path, all, { maxBuffer: 1 << 26 })).stderr
  }

  /** Whole or not at all, so that a run that was broken off can be taken up again. */
  async #make(path: string, work: (unfinished: string) => Promise<unknown>): Promise<string> {
    if (existsSync(path)) return path
    const unfinished = join(this.#folder, 'unfinished.mp4')
    await work(unfinished)
    renameSync(unfinished, path)
    return path
  }

  /** Of the children, which the shell says last: "0m1.234s 0m0.056s". */
  #lastCpuSeconds(): number {
    const line = readFileSync(this.#timesFile, 'utf8').trim().split('\n').at(-1) ?? ''
    return [...line.matchAll(/(\d+)m([\d.]+)s/g)].reduce((sum, part) => sum + Number(part[1]) * 60 + Number(part[2]), 0)
  }
}

/** The real program behind a shell that writes down the processor time of each encode. */
function timed(real: MediaPrograms, folder: string, timesFile: string): MediaPrograms {
  const path = join(folder, 'ffmpeg')
  writeFileSync(
    path,
    `#!/bin/bash\n'${real.ffmpeg.path}' "$@"; code=$?\ncase "$*" in *libx264*) times >> '${timesFile}';; esac; exit $code\n`,
  )
  chmodSync(path, 0o755)
  return { ...real, ffmpeg: { ...real.ffmpeg, path } }
}
