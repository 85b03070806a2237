import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import type { MediaPrograms } from '../../apps/shared/src/media/programs.ts'
import { framesShown, inWords, type Kind, kindsOf, makeClip } from './clips.ts'
import { type Call, isEncode, Recorder, redirected, runBare, streamsOf } from './recorded.ts'
import { type Output, Server } from './server.ts'

/** How a run differs from the others, so that what is equal is equal whatever the order and whoever works. */
interface Shape {
  title: string
  concurrency: number
  workers: number
  /** Clips of one job. */
  clipsPerJob: number
  /** Jobs of one directory wait for each other. */
  directories: number
  order: (clips: readonly Clip[]) => Clip[]
}

interface Clip {
  path: string
  kind: Kind
  frames: number
}

const SHAPES: readonly Shape[] = [
  {
    title: 'a job for each clip, four at a time, backwards',
    concurrency: 4,
    workers: 0,
    clipsPerJob: 1,
    directories: 4,
    order: (clips) => clips.toReversed(),
  },
  {
    title: 'a job of all clips for each profile, one at a time',
    concurrency: 1,
    workers: 0,
    clipsPerJob: 500,
    directories: 1,
    order: (clips) => [...clips],
  },
  {
    title: 'jobs of seven clips, three processes with one at a time each, every third first',
    concurrency: 1,
    workers: 2,
    clipsPerJob: 7,
    directories: 6,
    order: (clips) => [0, 1, 2].flatMap((rest) => clips.filter((_, at) => at % 3 === rest)),
  },
]

/** By profile and source. */
type Outputs = Map<string, Output>
const keyOf = (profile: string, source: string): string => `${profile} ${source}`

/** Sends every clip through every profile as often as is asked, and says all that was not as it must be. */
export async function measureStability(
  folder: string,
  programs: MediaPrograms,
  { clips: count, runs }: { clips: number; runs: number },
): Promise<string[]> {
  const clips: Clip[] = []
  mkdirSync(join(folder, 'clips'))
  for (const [at, kind] of kindsOf(count).entries()) {
    const path = await makeClip(programs.ffmpeg.path, join(folder, 'clips'), kind, at + 1)
    clips.push({ kind, path, frames: await framesShown(programs.ffmpeg.path, path) })
  }
  const problems: string[] = []
  const recorder = new Recorder(folder, programs)
  let first: Outputs | null = null
  for (let run = 0; run < runs; run++) {
    const shape = SHAPES[run % SHAPES.length] as Shape
    const home = join(folder, `run-${run}`)
    const beganMs = performance.now()
    const outputs = await sendAll(home, shape, clips, run === 0 ? recorder.env : {}, problems)
    const seconds = ((performance.now() - beganMs) / 1000).toFixed(0)
    console.log(`run ${run + 1}, ${shape.title}: ${outputs.size} verified outputs in ${seconds} s`)
    if (first === null) {
      first = outputs
      problems.push(...(await unlikeBare(home, recorder.calls(), outputs, programs)))
    } else problems.push(...differences(first, outputs, `run ${run + 1}`))
    rmSync(home, { recursive: true })
  }
  const ofClip = new Map(clips.map(({ path, kind }) => [path, inWords(kind)]))
  return problems.map((problem) => {
    const path = [...ofClip.keys()].find((one) => problem.includes(one))
    return path === undefined ? problem : `${problem} (${ofClip.get(path)})`
  })
}

async function sendAll(
  home: string,
  shape: Shape,
  clips: readonly Clip[],
  env: Readonly<Record<string, string>>,
  problems: string[],
): Promise<Outputs> {
  const { concurrency, workers, clipsPerJob, directories, order } = shape
  const server = await Server.start({ data: join(home, 'data'), concurrency, workers, env })
  const outputs: Outputs = new Map()
  try {
    const sent: { id: string; profile: string; directory: string }[] = []
    const ordered = order(clips)
    for (const profile of await server.profiles()) {
      for (let from = 0; from < ordered.length; from += clipsPerJob) {
        const directory = join(home, `${profile}-${(from / clipsPerJob) % directories}`)
        mkdirSync(directory, { recursive: true })
        const sources = ordered.slice(from, from + clipsPerJob).map(({ path }) => path)
        const output = { directory, naming: '{source_name}' }
        try {
          const { id } = await server.submit({ version: 1, sources, profile, output })
          sent.push({ id, profile, directory })
        } catch (error) {
          problems.push(`${profile} ${sources.join(' ')}: ${String(error)}`)
        }
      }
    }
    for (const { id, profile } of sent) {
      const job = await server.ended(id)
      if (job.status !== 'complete') {
        const { code, clip, detail } = job.error ?? { code: '', clip: null, detail: '' }
        problems.push(
          `${profile}: ${code} at clip ${clip}, ${job.spec.sources[(clip ?? 1) - 1]}: ${detail.split('\n')[0]}`,
        )
      }
      for (const output of job.outputs) outputs.set(keyOf(profile, output.source), output)
    }
    for (const directory of new Set(sent.map((one) => one.directory))) problems.push(...leftIn(directory, outputs))
    const byPath = new Map(clips.map((clip) => [clip.path, clip]))
    for (const [key, output] of outputs) problems.push(...unlike(key, output, byPath.get(output.source) as Clip))
  } finally {
    await server.stop()
  }
  return outputs
}

/** A folder has what was delivered, and nothing else. */
function leftIn(directory: string, outputs: Outputs): string[] {
  const delivered = new Set([...outputs.values()].map(({ path }) => path))
  const found = readdirSync(directory).map((name) => join(directory, name))
  const missing = [...delivered].filter((path) => path.startsWith(`${directory}/`) && !existsSync(path))
  return [
    ...found.filter((path) => !delivered.has(path)).map((path) => `${path} was left behind`),
    ...missing.map((path) => `${path} was delivered and is not there`),
  ]
}

/** What was put into a clip is in its proxy. */
function unlike(key: string, { frames, fingerprint, width, height }: Output, clip: Clip): string[] {
  const { kind } = clip
  const problems: string[] = []
  const [wide, high] = kind.turned % 180 === 0 ? kind.size : [kind.size[1], kind.size[0]]
  if (frames !== clip.frames) problems.push(`${key}: ${frames} frames instead of ${clip.frames}`)
  const tracks = fingerprint.streams.length - 1
  if (tracks !== kind.sound.length) problems.push(`${key}: ${tracks} sound tracks instead of ${kind.sound.length}`)
  const isUpright = (a: number, b: number) => Math.sign(a - b)
  if (Math.min(wide, high) > 32 && isUpright(wide, high) !== isUpright(width, height)) {
    problems.push(`${key}: ${width} x ${height} of ${wide} x ${high}`)
  }
  return problems
}

function differences(first: Outputs, outputs: Outputs, run: string): string[] {
  return [...first].flatMap(([key, { fingerprint, durationMs, frames }]) => {
    const other = outputs.get(key)
    if (other === undefined) return [`${run} has no output for ${key}`]
    const isSame = JSON.stringify(other.fingerprint) === JSON.stringify(fingerprint)
    return isSame && other.durationMs === durationMs && other.frames === frames ? [] : [`${run} differs in ${key}`]
  })
}

/** Encodes again with the same arguments and nothing around, and compares with the result and with what was delivered. */
async function unlikeBare(
  home: string,
  calls: readonly Call[],
  outputs: Outputs,
  { ffmpeg }: MediaPrograms,
): Promise<string[]> {
  const problems: string[] = []
  const byPath = new Map([...outputs].map(([key, output]) => [output.path, { key, output }]))
  const encodes = calls.filter(isEncode)
  let compared = 0
  const compareNext = async (hand: number) => {
    for (let call = encodes.pop(); call !== undefined; call = encodes.pop()) {
      const part = call.arguments.at(-1) as string
      const found = byPath.get(part.replace(/\.[^.]+\.partial$/, ''))
      if (found === undefined) continue
      const bare = join(home, `bare-${hand}.mov`)
      await runBare(redirected(call, bare))
      const said = JSON.stringify(found.output.fingerprint.streams)
      for (const [what, path] of [
        ['the bare loop', bare],
        ['the delivered file', found.output.path],
      ] as const) {
        const streams = JSON.stringify(await streamsOf(ffmpeg.path, path))
        if (streams !== said) problems.push(`${what} differs in ${found.key}`)
      }
      rmSync(bare)
      compared++
    }
  }
  await Promise.all(Array.from({ length: availableParallelism() }, (_, hand) => compareNext(hand)))
  console.log(`bare loop with the same arguments: ${compared} of ${outputs.size} outputs compared`)
  if (compared !== outputs.size) problems.push(`only ${compared} outputs were compared with the bare loop`)
  return problems
}
