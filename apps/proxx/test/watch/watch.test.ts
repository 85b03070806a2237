import { execFile } from 'node:child_process'
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { programFile } from '../../../../test/support/processes/programs.ts'
import { until } from '../../../../test/support/until.ts'
import { targetOn } from '../../src/cli/target.ts'
import { type WatchEvent, type WatchOptions, watchFolder } from '../../src/watch/watch.ts'
import { makeClip, needsFfmpeg } from '../clips.ts'
import { filesIn, type Line, Rig } from '../rig.ts'

needsFfmpeg()
const rig = Rig.open()
let clip: string
let folders = 0

beforeAll(async () => {
  clip = await makeClip(rig.path('a.mov'))
})

interface Watched {
  folder: string
  events: WatchEvent[]
  /** What lies in one of its folders. */
  names(of: string): string[]
  /** The only file there. */
  result(of: string): Line
  drop(name: string, content: string | object): string
  /** Ends it, or throws what ended it. */
  stop(): Promise<void>
}

function watched(options: Partial<WatchOptions> = {}, folder = rig.path(`watched-${folders++}`)): Watched {
  const stopping = new AbortController()
  const events: WatchEvent[] = []
  mkdirSync(join(folder, 'pending'), { recursive: true })
  const ended = watchFolder({
    target: targetOn(rig.proxx, 'ann'),
    folder,
    media: null,
    settleMs: 0,
    needsMarker: false,
    signal: stopping.signal,
    say: (event) => void events.push(event),
    ...options,
  })
  ended.catch(() => undefined)
  const stop = () => {
    stopping.abort()
    return ended
  }
  onTestFinished(() => stop().catch(() => undefined))
  const names = (of: string) =>
    existsSync(join(folder, of)) ? filesIn(join(folder, of)).filter((name) => !name.startsWith('.')) : []
  return {
    folder,
    events,
    names,
    result(of) {
      const found = names(of)
      expect(found).toHaveLength(1)
      return JSON.parse(readFileSync(join(folder, of, String(found[0])), 'utf8')) as Line
    },
    drop: (name, content) => dropped(folder, name, content),
    stop,
  }
}

/** As somebody who copies carefully does: under another name first. */
function dropped(folder: string, name: string, content: string | object): string {
  mkdirSync(join(folder, 'pending'), { recursive: true })
  const path = join(folder, 'pending', name)
  writeFileSync(join(folder, 'pending', '.copying'), typeof content === 'string' ? content : JSON.stringify(content))
  renameSync(join(folder, 'pending', '.copying'), path)
  return path
}

/** The id of the only job that runs, as soon as its file says that it was submitted. */
const submitted = (watch: Watched): Promise<string> =>
  until('it runs', () => {
    if (watch.names('running').length !== 1) return ''
    const { job, jobId } = watch.result('running')
    return job === null ? '' : String(jobId)
  })

const missing = (naming: string) => ({ ...rig.spec(['/nowhere/a.mov']), output: { directory: rig.folder, naming } })
const jobsWith = async (text: string) => {
  const { jobs } = await rig.app.jobs.list({ type: 'proxx.transcode', limit: 1_000 })
  const views = await Promise.all(jobs.map(({ id }) => rig.job(id)))
  return views.filter(({ spec }) => JSON.stringify(spec).includes(text))
}
const jobsNamed = (naming: string) => jobsWith(`"${naming}"`)

test('a spec that is dropped becomes a job, is seen running, and its result lies in completed', async () => {
  const watch = watched()
  watch.drop('card.json', rig.spec([clip]))
  const jobId = await submitted(watch)
  await rig.ended(jobId)
  await until('there is a result', () => watch.names('running').length === 0 && watch.names('completed').length === 1)
  expect(watch.names('completed')).toEqual([`card.json.${jobId}.json`])
  expect(watch.result('completed')).toMatchObject({ name: 'card.json', jobId, job: { status: 'complete' } })
  expect(watch.names('pending')).toEqual([])
  expect(readdirSync(join(watch.folder, 'taken', jobId))).toEqual(['card.json'])
})

test('an invalid spec in the watch folder becomes a failed job with a result file in failed [P5]', async () => {
  const watch = watched()
  watch.drop('broken.json', '{ "version": 1, ')
  await until('there is a result', () => watch.names('failed').length === 1)
  const { jobId, job } = watch.result('failed')
  expect(job).toMatchObject({ id: jobId, status: 'failed', executionAttempted: false, error: { code: 'SPEC_INVALID' } })
  expect(await rig.job(String(jobId))).toMatchObject({ spec: { unreadable: expect.stringContaining('not JSON') } })
})

test('with a profile, a card of clips is one job, and other files are left alone', async () => {
  const output = rig.output()
  const watch = watched({ media: { profile: 'proxy_h264_low', output, naming: '{source_name}_{index}' } })
  const card = rig.path('card-1')
  mkdirSync(join(card, 'CLIPS'), { recursive: true })
  for (const name of ['b.mov', 'a.MOV', 'index.xml']) copyFileSync(clip, join(card, 'CLIPS', name))
  watch.drop('notes.txt', 'take two is good')
  renameSync(card, join(watch.folder, 'pending', 'card-1'))
  const jobId = await submitted(watch)
  const taken = join(watch.folder, 'taken', jobId, 'card-1', 'CLIPS')
  expect(await rig.ended(jobId)).toMatchObject({
    status: 'complete',
    spec: { sources: [join(taken, 'a.MOV'), join(taken, 'b.mov')] },
  })
  await until('there is a result', () => watch.names('completed').length === 1)
  expect(filesIn(output)).toEqual(['a_001.mov', 'b_002.mov'])
  expect(watch.names('pending')).toEqual(['notes.txt'])
  expect(watch.events.filter(({ event }) => event === 'left')).toHaveLength(1)
})

test('a file that is still written to is not taken, whatever it is renamed to meanwhile', async () => {
  let [nowMs, looks] = [0, 0]
  const clock = () => {
    looks++
    return nowMs
  }
  const watch = watched({ settleMs: 200, nowMs: clock })
  const lookedAt = async () => {
    const before = looks
    await until('it was looked at', () => looks >= before + 2)
  }
  const text = JSON.stringify(missing('half-copied'))
  let path = join(watch.folder, 'pending', 'spec.json')
  writeFileSync(path, '')
  for (const part of [text.slice(0, 20), text.slice(20, 40), text.slice(40)]) {
    await lookedAt()
    nowMs += 150
    await lookedAt()
    appendFileSync(path, part)
    const renamed = path.replace('.json', '-.json')
    renameSync(path, renamed)
    path = renamed
  }
  await lookedAt()
  nowMs += 199
  await lookedAt()
  expect(watch.names('pending')).toEqual(['spec---.json'])
  nowMs += 1
  await until('there is a result', () => watch.names('failed').length === 1)
  expect(watch.result('failed')).toMatchObject({ name: 'spec---.json', spec: { output: { naming: 'half-copied' } } })
  expect(await jobsNamed('half-copied')).toHaveLength(1)
})

test('a card with a clip that is not copied to its end is left, says which, and is taken when the clip has its name', async () => {
  const watch = watched({ media: { profile: 'proxy_h264_low', output: rig.output(), naming: '{source_name}' } })
  const card = rig.path('card-2')
  mkdirSync(join(card, 'CLIPS'), { recursive: true })
  for (const name of ['a.mov', 'b.mov.part']) writeFileSync(join(card, 'CLIPS', name), 'no video at all')
  renameSync(card, join(watch.folder, 'pending', 'card-2'))
  const { message } = await until('it says so', () => watch.events.find(({ event }) => event === 'left'))
  expect(message).toBe('card-2 is left where it is: CLIPS/b.mov.part in it is not copied to its end yet.')
  expect(watch.names('taken')).toEqual([])
  const clips = join(watch.folder, 'pending', 'card-2', 'CLIPS')
  renameSync(join(clips, 'b.mov.part'), join(clips, 'b.mov'))
  await until('there is a result', () => watch.names('failed').length === 1)
  const { sources } = watch.result('failed').spec as { sources: string[] }
  expect(sources.map((source) => source.split('/').at(-1))).toEqual(['a.mov', 'b.mov'])
})

test('with markers, an item is taken only with its marker, and the marker is removed with it', async () => {
  const watch = watched({ needsMarker: true })
  watch.drop('late.json', missing('late'))
  watch.drop('early.json', missing('early'))
  watch.drop('early.json.done', '')
  await until('the marked one is done', () => watch.names('failed').length === 1)
  expect(watch.names('pending')).toEqual(['late.json'])
  watch.drop('late.json.done', '')
  await until('the other is done, too', () => watch.names('failed').length === 2)
  expect(watch.names('pending')).toEqual([])
})

test('two watchers do not share a folder', async () => {
  const first = watched()
  await until('it watches', () => first.events.length > 0)
  await expect(watched({}, first.folder).stop()).rejects.toMatchObject({ code: 'NOT_READY' })
  await first.stop()
  const next = watched({}, first.folder)
  await until('the next one may', () => next.events.length > 0)
})

test('a store that is away for a while loses nothing and makes nothing twice', async () => {
  const target = targetOn(rig.proxx, 'ann')
  let asked = 0
  const submit = async (spec: unknown, id?: string) => {
    const job = await target.submit(spec, id)
    // It was done, and nobody was told.
    if (asked++ === 0) throw Object.assign(new Error('connection reset'), { code: 'ECONNRESET' })
    return job
  }
  const watch = watched({ target: { show: target.show, submit } })
  watch.drop('away.json', missing('away'))
  await until('the result is told', () => watch.events.some(({ event }) => event === 'failed'))
  expect(watch.names('failed')).toHaveLength(1)
  expect(watch.events.map(({ event }) => event)).toEqual(['watching', 'trouble', 'failed'])
  expect(await jobsNamed('away')).toHaveLength(1)
})

test('submitting twice with one id makes one job and gives no access to the jobs of others', async () => {
  const { ann, operator } = await rig.serve()
  const path = '/proxx/jobs?id=0190aaaa-0000-4000-8000-00000000000a'
  const spec = rig.spec([clip])
  const first = await operator.post(path, spec)
  await rig.ended(first.json.id)
  // Its output is there by now, which would refuse it.
  const second = await operator.post(path, spec)
  expect([first.status, second.status]).toEqual([201, 200])
  expect(second.json).toMatchObject({ id: first.json.id, status: 'complete' })
  expect(rig.lines(first.json.id).filter(({ to }) => to === 'failed')).toEqual([])
  const others = await ann.post(path, spec)
  expect(others.status).toBe(403)
  expect(others.text).not.toContain(clip)
})

interface Killed {
  how: 'marker' | 'settle'
  code: string
  drop(folder: string, step: number): void
  options: Partial<WatchOptions>
  killsMin: number
  /** The line in the failure log comes before the change: who dies between the two is followed by one who says it again. */
  saidTwice: number
}

const KILLED: Killed[] = [
  {
    how: 'marker',
    code: 'INPUT_MISSING',
    drop(folder, step) {
      dropped(folder, 'spec.json', missing(`killed-at-${step}`))
      dropped(folder, 'spec.json.done', '')
    },
    options: { needsMarker: true },
    killsMin: 13,
    saidTwice: 1,
  },
  {
    how: 'settle',
    code: 'INPUT_UNREADABLE',
    drop(folder, step) {
      const card = rig.path(`card-killed-${step}`)
      mkdirSync(card)
      for (const name of ['a.mov', 'b.mov']) writeFileSync(join(card, name), 'no video at all')
      mkdirSync(join(folder, 'pending'), { recursive: true })
      renameSync(card, join(folder, 'pending', 'card'))
    },
    options: { settleMs: 1, media: { profile: 'proxy_h264_low', output: rig.home, naming: '{source_name}' } },
    killsMin: 6,
    saidTwice: 0,
  },
]

/** Several at once: each has a folder of its own, and most of what it costs is a process that starts. */
const KILLED_AT_ONCE = 3

test.each(KILLED)(
  'SIGKILL before any step, by $how: the next watcher goes on, nothing is lost and nothing is submitted twice',
  async (kind) => {
    const ends: Awaited<ReturnType<typeof killedAt>>[] = []
    while (!ends.some(({ isOver }) => isOver)) {
      const steps = Array.from({ length: KILLED_AT_ONCE }, (_, more) => ends.length + 1 + more)
      ends.push(...(await Promise.all(steps.map((step) => killedAt(step, kind)))))
    }
    const killed = ends.filter(({ isOver }) => !isOver)
    expect(killed.length).toBeGreaterThanOrEqual(kind.killsMin)
    expect(killed.filter(({ lines }) => lines === 2)).toHaveLength(kind.saidTwice)
    expect(ends.filter(({ lines }) => lines !== 2 && lines !== 1)).toEqual([])
  },
)

/** A watcher is killed before this step of its own, and another one goes on. Tells in how many lines the log has it. */
async function killedAt(
  step: number,
  { how, code, drop, options }: Killed,
): Promise<{ isOver: boolean; lines: number }> {
  const folder = rig.path(`killed-${how}-${step}`)
  const at = `${how}, step ${step}`
  drop(folder, step)
  const args = [
    '--disable-warning=ExperimentalWarning',
    programFile('proxx-watcher'),
    rig.home,
    folder,
    String(step),
    how,
  ]
  const env = { ...process.env, PROXX_FREE_MB: '0' }
  const ended = await promisify(execFile)(process.execPath, args, { env }).catch((error: unknown) => error)
  const isOver = !(ended instanceof Error)
  expect(ended, at).toMatchObject(isOver ? { stdout: 'no more steps\n' } : { signal: 'SIGKILL', stderr: '' })

  const next = watched(options, folder)
  await until(
    `there is a result after ${at}`,
    () => next.names('failed').length === 1 && next.names('running').length === 0,
  )
  await next.stop()
  expect(next.names('pending'), at).toEqual([])
  expect(next.names('taken'), at).toHaveLength(1)
  const { jobId, job } = next.result('failed')
  expect(job, at).toMatchObject({ id: jobId, status: 'failed', error: { code } })
  const jobs = await jobsWith(how === 'marker' ? `"killed-at-${step}"` : `${folder}/`)
  expect(jobs, at).toMatchObject([{ id: jobId }])
  const lines = rig.lines(String(jobId)).filter(({ to }) => to === 'failed')
  expect(new Set(lines.map(({ ts: _, ...line }) => JSON.stringify(line))).size, at).toBe(1)
  return { isOver, lines: lines.length }
}
