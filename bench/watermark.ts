/**
 * How well the invisible mark hides and how well it is found again, with a marked copy for each of many recipients.
 * Every copy goes through what somebody may do to it, and is ranked among all recipients and 1,000 decoys. Takes hours:
 * node --conditions=redress-source bench/watermark.ts [--recipients 50] [--seconds 2] [--clips chart,fractal]
 *   [--files a.webm,b.mp4] [--attacks promised] [--folder kept] [--out figures.json]
 * Attacks are none (quality and speed alone), promised (what a mark must survive, by all recipients) or all (what weakens
 * it too, by the first two). With a folder, what was made is kept there and a run that was broken off goes on.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, extname, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { mediaLimits } from '../apps/shared/src/media/limits.ts'
import { findPrograms } from '../apps/shared/src/media/programs.ts'
import {
  type Judgement,
  judge,
  SOURCE_FRAMES_MAX,
  SUSPECT_FRAMES_MAX,
} from '../apps/watermark/src/media/detection/detect.ts'
import { readFrames, type SmallFrame } from '../apps/watermark/src/media/detection/frames.ts'
import { probeMedia } from '../apps/watermark/src/media/probe.ts'
import { type Attack, CLIPS, OTHERS, PROMISED } from './watermark/clips.ts'
import { Films, KEY, tokenOf } from './watermark/films.ts'
import { inWords, median, type Tally, tally } from './watermark/tally.ts'

const { values } = parseArgs({
  options: {
    recipients: { type: 'string', default: '50' },
    seconds: { type: 'string', default: '2' },
    clips: { type: 'string', default: Object.keys(CLIPS).join(',') },
    files: { type: 'string', default: '' },
    attacks: { type: 'string', default: 'all' },
    rounds: { type: 'string', default: '3' },
    folder: { type: 'string' },
    out: { type: 'string' },
  },
})

const RECIPIENTS = Number(values.recipients)
/** Each copy is ranked among so many, whether all of them have one here or not. */
const TOKENS = Array.from({ length: Math.max(50, RECIPIENTS) }, (_, i) => tokenOf(i))
const HARDENED = Math.min(2, RECIPIENTS)
const LOOKED_AT = Math.min(5, RECIPIENTS)
const OTHER_KEY = 'the key of another campaign'

const programs = await findPrograms()
const folder = values.folder === undefined ? mkdtempSync(join(tmpdir(), 'redress-watermark-')) : resolve(values.folder)
const figures: Record<string, Record<string, unknown>> = {}

try {
  const named = (list: string): string[] => list.split(',').filter((name) => name !== '')
  for (const clip of [...named(values.clips), ...named(values.files)]) await measure(clip)
} finally {
  if (values.folder === undefined) rmSync(folder, { recursive: true, force: true })
}

async function measure(clip: string): Promise<void> {
  const name = basename(clip, extname(clip))
  const films = new Films(join(folder, name), programs)
  await films.makeSource(clip, values.seconds)
  console.log(`\n${name}`)
  await measureQuality(name, films)
  if (values.attacks === 'none') return
  const source = await framesOf(films.source, SOURCE_FRAMES_MAX)
  console.log(
    `${'found, lowest z (median), best wrong'.padEnd(28)}${'with source'.padStart(32)}${'without'.padStart(34)}`,
  )
  for (const attack of PROMISED) await measureAttack(name, films, attack, source, RECIPIENTS)
  await measureInnocence(name, films, source)
  if (values.attacks !== 'all') return
  for (const attack of OTHERS) await measureAttack(name, films, attack, source, HARDENED)
  if (RECIPIENTS < 2) return
  const mixed = await films.mixed(await films.marked(0), await films.marked(1))
  // Both took part: the accomplice is the best of the wrong ones.
  await compare(name, 'mixed with another', [{ suspect: mixed, right: tokenOf(0) }], source)
}

async function measureQuality(name: string, films: Films): Promise<void> {
  const seen: { psnr: number; ssim: number }[] = []
  for (let i = 0; i < LOOKED_AT; i++) seen.push(await films.likeness(await films.marked(i)))
  const psnr = Math.min(...seen.map((one) => one.psnr))
  const ssim = Math.min(...seen.map((one) => one.ssim))
  const times = await films.encodeTimes(Number(values.rounds))
  const [marked, plain] = [median(times.marked), median(times.plain)]
  note(name, 'quality', { psnr, ssim, copies: seen.length })
  note(name, 'encode', { marked, plain, all: times })
  console.log(`against the encode without the mark, the worst of ${seen.length}: PSNR ${psnr} dB, SSIM ${ssim}`)
  console.log(
    `encode: ${marked.toFixed(2)} s of processor, plain ${plain.toFixed(2)} s, x ${(marked / plain).toFixed(2)}`,
  )
}

async function measureAttack(
  name: string,
  films: Films,
  attack: Attack,
  source: readonly SmallFrame[],
  recipients: number,
): Promise<void> {
  const suspects: Suspect[] = []
  for (let i = 0; i < recipients; i++) {
    suspects.push({ suspect: await films.attacked(await films.marked(i), attack), right: tokenOf(i) })
  }
  await compare(name, attack.name, suspects, source)
}

/** A file without a mark, and some copies when asked with another key: nobody may be accused. */
async function measureInnocence(name: string, films: Films, source: readonly SmallFrame[]): Promise<void> {
  const plain = [films.plain]
  for (const attack of PROMISED) plain.push(await films.attacked(films.plain, attack))
  await compare(
    name,
    'no mark at all',
    plain.map((suspect) => ({ suspect, right: null })),
    source,
  )
  const foreign: Suspect[] = []
  for (let i = 0; i < LOOKED_AT; i++) foreign.push({ suspect: await films.marked(i), right: null, key: OTHER_KEY })
  await compare(name, 'mark of another key', foreign, source)
}

interface Suspect {
  suspect: string
  /** Nobody's, where nobody may be found. */
  right: string | null
  key?: string
}

async function compare(name: string, what: string, suspects: Suspect[], source: readonly SmallFrame[]): Promise<void> {
  const aided: Outcome[] = []
  const blind: Outcome[] = []
  for (const { suspect: path, right, key = KEY } of suspects) {
    const asked = { suspect: await framesOf(path, SUSPECT_FRAMES_MAX), key, tokens: TOKENS }
    aided.push({ right, judgement: await judge({ ...asked, source }) })
    blind.push({ right, judgement: await judge({ ...asked, source: [] }) })
  }
  const found: { aided: Tally; blind: Tally } = { aided: tally(aided), blind: tally(blind) }
  note(name, what, found)
  console.log(`${what.padEnd(28)}${inWords(found.aided)}${inWords(found.blind)}`)
}

interface Outcome {
  right: string | null
  judgement: Judgement
}

/** As the product reads them; each file once, for both ways to judge it. */
async function framesOf(path: string, framesMax: number): Promise<SmallFrame[]> {
  const media = await probeMedia(path, { programs })
  const run = { limits: mediaLimits(), subject: 'source' as const }
  return readFrames({ media, framesMax, folder: dirname(path), name: 'frames', programs, run })
}

/** Written as they come, because a run takes long. */
function note(clip: string, what: string, figure: unknown): void {
  figures[clip] = { ...figures[clip], [what]: figure }
  if (values.out !== undefined) writeFileSync(values.out, `${JSON.stringify(figures, null, 2)}\n`)
}
