/**
 * How well the invisible mark hides and how well it is found again. Five generated clips, one marked copy of each,
 * ranked among 50 recipients and 1,000 decoys after everything that somebody may do to a copy. Takes several minutes:
 * node --conditions=redress-source bench/watermark.ts [--seconds 8] [--clips chart,fractal] [--attacks promised]
 * Attacks are none, promised (what a mark must survive) or all.
 */
import { execFile } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs, promisify } from 'node:util'
import { findPrograms, type MediaPrograms } from '../apps/shared/media/programs.ts'
import { type Detection, detect } from '../apps/watermark/media/detect.ts'
import { markVideo } from '../apps/watermark/media/mark.ts'

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '8' },
    clips: { type: 'string' },
    attacks: { type: 'string', default: 'all' },
  },
})

const CLIPS: Readonly<Record<string, string>> = {
  chart: 'testsrc2=s=1280x720:r=25',
  fractal: 'mandelbrot=s=1280x720:r=25:start_scale=0.5:end_scale=0.05:end_pts=200',
  gradients: 'gradients=s=1280x720:r=25:n=5:speed=0.02:seed=7,noise=alls=3:allf=t',
  cells: 'life=s=320x180:r=25:ratio=0.3:seed=3:mold=20:life_color=#c0d0ff:death_color=#204010,scale=1280:720,gblur=4',
  still: 'mandelbrot=s=1280x720:r=25:start_scale=0.02:end_scale=0.02,noise=alls=4:allf=t',
}

type Attack = readonly [name: string, args: readonly string[]]

/** What a mark must survive. */
const PROMISED: readonly Attack[] = [
  ['CRF 23', ['-crf', '23']],
  ['CRF 28', ['-crf', '28']],
  ['480p', ['-vf', 'scale=854:480', '-crf', '18']],
  ['480p, CRF 28', ['-vf', 'scale=854:480', '-crf', '28']],
]

/** What weakens or defeats it. */
const OTHERS: readonly Attack[] = [
  ['CRF 35', ['-crf', '35']],
  ['240p, CRF 30', ['-vf', 'scale=426:240', '-crf', '30']],
  ['cut by 3.1 s', ['-ss', '3.1', '-crf', '23']],
  ['noise', ['-vf', 'noise=alls=20:allf=t', '-crf', '23']],
  ['blur, 4 px', ['-vf', 'gblur=4', '-crf', '23']],
  ['blur, 10 px', ['-vf', 'gblur=10', '-crf', '23']],
  ['crop of 1 %', ['-vf', 'crop=1268:712:6:4', '-crf', '23']],
  ['crop of 5 %', ['-vf', 'crop=1216:684:32:18', '-crf', '23']],
  ['turned by 1 degree', ['-vf', 'rotate=PI/180', '-crf', '23']],
  ['mirrored', ['-vf', 'hflip', '-crf', '23']],
]

const KEY = 'a key that only this benchmark has'
const TOKENS = Array.from({ length: 50 }, (_, i) => `recipient-${i}`)
const [RIGHT, ACCOMPLICE] = ['recipient-17', 'recipient-31'] as const
const ROUNDS = 3

/** As the product runs ffmpeg: even a line of statistics costs time, and so does being exact to the last bit. */
const QUIET = ['-v', 'error', '-nostats', '-progress', 'pipe:1']
const AS_MARKED = [
  '-fps_mode',
  'passthrough',
  '-flags:v',
  '+bitexact',
  '-fflags',
  '+bitexact',
  '-movflags',
  '+faststart',
]
const LIKENESS = '[0:v]split[a][b];[1:v]split[c][d];[a][c]psnr;[b][d]ssim'
const x264 = (preset: string): string[] => [
  '-c:v',
  'libx264',
  '-preset',
  preset,
  '-pix_fmt',
  'yuv420p',
  '-threads',
  '2',
]

const folder = mkdtempSync(join(tmpdir(), 'redress-watermark-'))
const file = (name: string): string => join(folder, name)
const timesFile = file('times')
const programs = await timed(await findPrograms())

try {
  for (const name of values.clips?.split(',') ?? Object.keys(CLIPS)) await measure(name, CLIPS[name] as string)
} finally {
  rmSync(folder, { recursive: true, force: true })
}

/** The real program behind a shell that writes down the processor time of each encode: others work on this machine. */
async function timed(real: MediaPrograms): Promise<MediaPrograms> {
  const path = file('ffmpeg')
  writeFileSync(
    path,
    `#!/bin/bash\n'${real.ffmpeg.path}' "$@"; code=$?\ncase "$*" in *libx264*) times >> '${timesFile}';; esac; exit $code\n`,
  )
  chmodSync(path, 0o755)
  return { ...real, ffmpeg: { ...real.ffmpeg, path } }
}

/** Of the children, which the shell says last: "0m1.234s 0m0.056s". */
function lastCpuSeconds(): number {
  const line = readFileSync(timesFile, 'utf8').trim().split('\n').at(-1) ?? ''
  return [...line.matchAll(/(\d+)m([\d.]+)s/g)].reduce((sum, part) => sum + Number(part[1]) * 60 + Number(part[2]), 0)
}

async function ffmpeg(...args: string[]): Promise<string> {
  const all = ['-nostdin', '-hide_banner', '-y', ...args]
  return (await promisify(execFile)(programs.ffmpeg.path, all, { maxBuffer: 1 << 26 })).stderr
}

async function measure(name: string, picture: string): Promise<void> {
  const [source, plain, marked] = [file('source.mp4'), file('plain.mp4'), file('marked.mp4')]
  await ffmpeg('-f', 'lavfi', '-i', picture, '-t', values.seconds, ...x264('veryfast'), '-crf', '16', source)
  const plainCpu: number[] = []
  const markedCpu: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    // With the settings of the product, but for the mark.
    await ffmpeg(...QUIET, '-threads', '2', '-i', source, ...x264('veryfast'), '-crf', '18', ...AS_MARKED, plain)
    plainCpu.push(lastCpuSeconds())
    await markVideo({ source, target: marked, invisible: { key: KEY, tokenId: RIGHT }, programs })
    markedCpu.push(lastCpuSeconds())
  }
  const said = await ffmpeg('-i', marked, '-i', plain, '-lavfi', LIKENESS, '-f', 'null', '-')
  const [psnr, ssim] = [/PSNR y:([\d.]+)/.exec(said)?.[1], /SSIM Y:([\d.]+)/.exec(said)?.[1]]
  const [with_, without] = [median(markedCpu), median(plainCpu)]
  console.log(`\n${name}: against the encode without the mark: PSNR ${psnr} dB, SSIM ${ssim}`)
  console.log(
    `encode: ${with_.toFixed(2)} s of processor, plain ${without.toFixed(2)} s, x ${(with_ / without).toFixed(2)}`,
  )
  if (values.attacks === 'none') return
  console.log(`${'attack'.padEnd(22)}${'with source'.padStart(24)}${'without'.padStart(24)}`)

  await report('none', marked, source)
  for (const [attack, args] of values.attacks === 'promised' ? PROMISED : [...PROMISED, ...OTHERS]) {
    await ffmpeg('-i', marked, ...x264('medium'), ...args, file('suspect.mp4'))
    await report(attack, file('suspect.mp4'), source)
  }
  await report('no mark at all', plain, source)
  if (values.attacks === 'promised') return
  const other = file('other.mp4')
  await markVideo({ source, target: other, invisible: { key: KEY, tokenId: ACCOMPLICE }, programs })
  const mixed = ['-filter_complex', '[0:v][1:v]blend=all_mode=average', ...x264('medium'), '-crf', '23']
  await ffmpeg('-i', marked, '-i', other, ...mixed, file('suspect.mp4'))
  await report('mixed with another', file('suspect.mp4'), source)
}

async function report(attack: string, suspect: string, source: string): Promise<void> {
  const asked = { suspect, key: KEY, tokens: TOKENS, programs }
  const aided = await detect({ ...asked, source })
  const blind = await detect(asked)
  console.log(`${attack.padEnd(22)}${inWords(aided)}${inWords(blind)}`)
}

/** z of the right token, its place among the recipients, the best decoy. */
function inWords({ ranking, bestDecoyZ, verdict }: Detection): string {
  const place = ranking.findIndex(({ tokenId }) => tokenId === RIGHT)
  const words = `z ${ranking[place]?.z.toFixed(1)} (${place + 1}.) decoy ${bestDecoyZ.toFixed(1)}`
  return `${words}${verdict === 'match' ? '' : ' ?'}`.padStart(24)
}

function median(figures: readonly number[]): number {
  return figures.toSorted((a, b) => a - b)[Math.floor(figures.length / 2)] as number
}
