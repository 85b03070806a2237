import { mkdirSync, rmSync } from 'node:fs'
import { loadavg } from 'node:os'
import { join } from 'node:path'
import type { MediaPrograms } from '../../apps/shared/src/media/programs.ts'
import { type Kind, kindsOf, makeCameraClip, makeClip } from './clips.ts'
import { type Call, isEncode, Recorder, redirected, runBare } from './recorded.ts'
import { processorOf, Server } from './server.ts'

/** What one clip took, in seconds. */
interface Taken {
  wall: number
  /** Of programs. */
  processor: number
  /** Of Redress itself: server, worker and store in one process. */
  own: number
}

interface Measured {
  encode: Taken[]
  programs: Taken[]
  proxx: Taken[]
  /** Between the programs of a job, from its submission to its end. */
  gaps: number[]
}

interface OverheadOptions {
  clips: number
  seconds: number
  rounds: number
  /** Null for all. */
  profiles: readonly string[] | null
}

/**
 * What Redress takes beside the programs that it runs: one job of one clip at a time, from the moment it is submitted to
 * its end, beside a loop that runs the same programs with the same arguments one after another. They take turns, and
 * each is first as often as the other.
 */
export async function measureOverhead(
  folder: string,
  programs: MediaPrograms,
  options: OverheadOptions,
): Promise<void> {
  const { clips, seconds, rounds } = options
  const sources: string[] = []
  for (let n = 1; n <= clips; n++) {
    sources.push(await makeCameraClip(programs.ffmpeg.path, join(folder, `camera-${n}.mov`), seconds, n))
  }
  const measured = new Map<string, Measured>()
  const load: number[] = []
  const recorder = new Recorder(folder, programs)
  const calls = await recorded(folder, recorder, sources, measured, {
    ffmpeg: programs.ffmpeg.path,
    profiles: options.profiles,
  })
  const server = await Server.start({ data: join(folder, 'timed'), concurrency: 1 })
  try {
    for (let round = 0; round < rounds; round++) {
      for (const [at, { profile, source, made }] of calls.entries()) {
        const figures = measured.get(profile) as Measured
        const bare = async () => {
          const { encode, all } = await bareLoop(made, join(folder, 'bare.mov'))
          figures.encode.push(encode)
          figures.programs.push(all)
        }
        const withProxx = async () => {
          figures.proxx.push((await oneJob(server, folder, profile, source)).taken)
        }
        const [first, second] = (round + at) % 2 === 0 ? [bare, withProxx] : [withProxx, bare]
        await first()
        await second()
        load.push(loadavg()[0] as number)
      }
    }
  } finally {
    await server.stop()
  }
  report(measured, load, options)
}

interface Recorded {
  profile: string
  source: string
  made: Call[]
}

/** Each once with programs that note their calls: what the bare loop runs, and how long none of them ran. */
async function recorded(
  folder: string,
  recorder: Recorder,
  sources: readonly string[],
  measured: Map<string, Measured>,
  { ffmpeg, profiles }: { ffmpeg: string; profiles: readonly string[] | null },
): Promise<Recorded[]> {
  const server = await Server.start({ data: join(folder, 'recorded'), concurrency: 1, env: recorder.env })
  const all: Recorded[] = []
  try {
    // The first job of a process pays for what is compiled and looked up once.
    const [small] = kindsOf(1)
    await oneJob(server, folder, 'proxy_h264_low', await makeClip(ffmpeg, folder, small as Kind, 1))
    for (const profile of profiles ?? (await server.profiles())) {
      const gaps: number[] = []
      measured.set(profile, { encode: [], programs: [], proxx: [], gaps })
      for (const source of sources) {
        const before = recorder.calls().length
        const { taken } = await oneJob(server, folder, profile, source)
        const made = recorder.calls().slice(before)
        const ran = made.reduce((sum, { beganMs, endedMs }) => sum + (endedMs - beganMs) / 1000, 0)
        gaps.push(taken.wall - ran)
        all.push({ profile, source, made })
      }
    }
  } finally {
    await server.stop()
  }
  return all
}

async function oneJob(server: Server, folder: string, profile: string, source: string): Promise<{ taken: Taken }> {
  const directory = join(folder, 'out')
  mkdirSync(directory)
  try {
    const before = processorOf(server.pid)
    const beganMs = Date.now()
    const { id } = await server.submit({ version: 1, sources: [source], profile, output: { directory, naming: 'x' } })
    const job = await server.ended(id)
    const after = processorOf(server.pid)
    if (job.status !== 'complete') throw new Error(`${profile} of ${source}: ${JSON.stringify(job.error)}`)
    const taken = {
      wall: (Date.parse(String(job.finishedAt)) - beganMs) / 1000,
      processor: after.programs - before.programs,
      own: after.own - before.own,
    }
    return { taken }
  } finally {
    rmSync(directory, { recursive: true })
  }
}

async function bareLoop(calls: readonly Call[], output: string): Promise<{ encode: Taken; all: Taken }> {
  const encode: Taken = { wall: 0, processor: 0, own: 0 }
  const all: Taken = { wall: 0, processor: 0, own: 0 }
  for (const call of calls) {
    const before = processorOf(process.pid).programs
    const beganMs = performance.now()
    await runBare(redirected(call, output))
    const wall = (performance.now() - beganMs) / 1000
    const processor = processorOf(process.pid).programs - before
    for (const sum of isEncode(call) ? [encode, all] : [all]) {
      sum.wall += wall
      sum.processor += processor
    }
  }
  rmSync(output)
  return { encode, all }
}

function report(measured: ReadonlyMap<string, Measured>, load: readonly number[], options: OverheadOptions): void {
  const { clips, seconds, rounds } = options
  const busy = `load ${Math.min(...load).toFixed(1)} to ${Math.max(...load).toFixed(1)}`
  console.log(`\n${clips} clips of ${seconds} s, 1920x1080 at 25, one job each, medians of ${rounds} rounds, ${busy}\n`)
  const heads = ['encode', 'programs', 'proxx', 'added', 'between', 'encode', 'programs', 'proxx', 'own']
  console.log(`${''.padEnd(WIDTH)}${'seconds'.padStart(9)}${' '.repeat(36)}${'of processor'.padStart(12)}`)
  console.log(`${'a clip'.padEnd(WIDTH)}${heads.map((head) => head.padStart(9)).join('')}`)
  const sums = new Array<number>(9).fill(0)
  for (const [profile, figures] of measured) {
    const wall = (taken: readonly Taken[]) => median(taken.map((one) => one.wall))
    const processor = (taken: readonly Taken[]) => median(taken.map((one) => one.processor))
    const { encode, programs, proxx, gaps } = figures
    const own = median(proxx.map((one) => one.own))
    const line = [
      ...[wall(encode), wall(programs), wall(proxx), wall(proxx) - wall(programs), median(gaps)],
      ...[processor(encode), processor(programs), processor(proxx), own],
    ]
    for (const [at, figure] of line.entries()) sums[at] = (sums[at] as number) + figure
    console.log(`${profile.padEnd(WIDTH)}${line.map((figure) => figure.toFixed(2).padStart(9)).join('')}`)
  }
  // Where these are far apart, the machine did something else meanwhile, and a difference of medians says little.
  for (const [profile, { programs, proxx }] of measured) {
    console.log(`${profile.padEnd(WIDTH)}   programs ${spread(programs)}, proxx ${spread(proxx)}`)
  }
  console.log(`${'all'.padEnd(WIDTH)}${sums.map((figure) => figure.toFixed(2).padStart(9)).join('')}`)
  const [encode = 0, programs = 0, , added = 0, between = 0, , processor = 0, , own = 0] = sums
  const percent = (part: number, whole: number) => `${((100 * part) / whole).toFixed(1)} %`
  console.log(`\nadded by Redress to its programs: ${percent(added, programs)} of the time beside the bare loop,`)
  console.log(`  ${percent(between, programs)} by the time in which none of them ran (with a shell around each)`)
  console.log(`processor time of Redress itself: ${percent(own, processor)} of that of its programs`)
  console.log(`probes and verification: ${percent(programs - encode, encode)} of the encode alone`)
}

const WIDTH = 20

function spread(taken: readonly Taken[]): string {
  const walls = taken.map(({ wall }) => wall)
  return `${Math.min(...walls).toFixed(2)} to ${Math.max(...walls).toFixed(2)} s`
}

const median = (figures: readonly number[]): number => {
  const sorted = figures.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? upper)) / 2
}
