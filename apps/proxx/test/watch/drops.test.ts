import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../../../test/support/until.ts'
import { type Target, targetOn } from '../../src/cli/target.ts'
import { type WatchEvent, watchFolder } from '../../src/watch/watch.ts'
import { needsFfmpeg } from '../clips.ts'
import { Rig } from '../rig.ts'

needsFfmpeg()
const rig = Rig.open()

/** Watches what is in `pending` already. */
function watching(folder: string, target: Pick<Target, 'show' | 'submit'> = targetOn(rig.proxx, 'ann')) {
  const stopping = new AbortController()
  const events: WatchEvent[] = []
  const media = { profile: 'proxy_h264_low', output: rig.home, naming: '{source_name}' }
  const { signal } = stopping
  const say = (event: WatchEvent) => void events.push(event)
  const ended = watchFolder({ target, folder, media, settleMs: 0, needsMarker: false, signal, say })
  onTestFinished(() => {
    stopping.abort()
    return ended
  })
  return {
    said: (what: WatchEvent['event']) => events.filter(({ event }) => event === what).map(({ message }) => message),
    /** The spec of something dropped, when its job has failed. */
    failed: (name: string) =>
      until(`${name} has failed`, () => {
        if (!events.some((event) => event.event === 'failed' && event.name === name)) return null
        const file = readdirSync(join(folder, 'failed')).find((one) => one.startsWith(`${name}.`))
        return JSON.parse(readFileSync(join(folder, 'failed', String(file)), 'utf8'))
      }),
  }
}

function emptyFolder(): { folder: string; pending: string } {
  const folder = mkdtempSync(join(rig.folder, 'drops-'))
  mkdirSync(join(folder, 'pending'))
  return { folder, pending: join(folder, 'pending') }
}

test('hidden files of a card are ignored, and other files are counted by kind', async () => {
  const { folder, pending } = emptyFolder()
  const clips = join(pending, 'card', 'PRIVATE', 'M4ROOT', 'CLIP')
  for (const inside of [clips, join(pending, 'card', '.Trashes', '501')]) mkdirSync(inside, { recursive: true })
  const names = ['CLIP/C1.MP4', 'CLIP/C1M01.XML', 'CLIP/C2M01.XML', 'CLIP/._C1.MP4', 'CLIP/X.R3D']
  const files = names.map((name) => join(clips, '..', name))
  for (const path of [...files, join(pending, 'card', '.Trashes', '501', 'old.mov')]) writeFileSync(path, 'no video')
  symlinkSync(join(clips, 'C1.MP4'), join(clips, 'C9.MP4'))
  symlinkSync('/etc/passwd', join(pending, 'linked.mov'))
  writeFileSync(join(pending, 'half.mov.part'), 'half')
  const watch = watching(folder)
  const { jobId, spec } = await watch.failed('card')
  expect(spec.sources).toEqual([join(folder, 'taken', jobId, 'card', 'PRIVATE', 'M4ROOT', 'CLIP', 'C1.MP4')])
  expect(watch.said('left-out')).toEqual(['card: what in it is no clip is not in its job: 2 .xml, 1 .r3d, 1 links.'])
  expect(watch.said('left').toSorted()).toEqual([
    'half.mov.part is left where it is: it is not copied to its end yet.',
    'linked.mov is left where it is: it is a link, and links are not followed.',
  ])
})

test('an unreadable spec in the watch folder is recorded as a failed job and the watch continues [P5]', async () => {
  const { folder, pending } = emptyFolder()
  const spec = JSON.stringify({ ...rig.spec(['/nowhere/a.mov']), output: { directory: rig.home, naming: 'marked' } })
  writeFileSync(join(pending, '1-cut.json'), '{ "version": 1, ')
  writeFileSync(join(pending, '2-deep.json'), '['.repeat(100_000) + ']'.repeat(100_000))
  writeFileSync(join(pending, '3-huge.json'), ' '.repeat(2 ** 20 + 1))
  writeFileSync(join(pending, '4-marked.json'), `\uFEFF${spec}`)
  const watch = watching(folder)
  expect((await watch.failed('4-marked.json')).job.error).toMatchObject({ code: 'INPUT_MISSING' })
  const why = ['1-cut', '2-deep', '3-huge'].map(async (name) => (await watch.failed(`${name}.json`)).job.error)
  expect(await Promise.all(why)).toMatchObject([
    { code: 'SPEC_INVALID', problems: [{ message: expect.stringMatching(/^It is not JSON: /) }] },
    { code: 'SPEC_INVALID', problems: [{ message: 'It is nested too deeply to be a spec.' }] },
    { code: 'SPEC_INVALID', problems: [{ message: 'It has 1048577 bytes, and a spec at most 1048576.' }] },
  ])
})

test('something that cannot be read holds up nothing that was dropped beside it', async () => {
  const { folder, pending } = emptyFolder()
  // Each half has a path that can be written; together they are longer than any path may be.
  const half = (name: string) => join(rig.folder, name, ...Array.from({ length: 9 }, () => 'd'.repeat(250)))
  const [outer, inner] = [half('outer'), half('inner')]
  for (const deep of [outer, inner]) mkdirSync(deep, { recursive: true })
  renameSync(join(rig.folder, 'inner'), join(outer, 'inner'))
  renameSync(join(rig.folder, 'outer'), join(pending, 'a-card'))
  const back = () => {
    renameSync(join(pending, 'a-card'), join(rig.folder, 'outer'))
    renameSync(join(outer, 'inner'), join(rig.folder, 'inner'))
  }
  onTestFinished(back)
  writeFileSync(join(pending, 'b.json'), JSON.stringify(rig.spec(['/nowhere/a.mov'])))
  const watch = watching(folder)
  await watch.failed('b.json')
  expect(watch.said('trouble')).toEqual([expect.stringContaining('ENAMETOOLONG')])
})

test('a store that is away is spoken of once, however much waits for it', async () => {
  const { folder, pending } = emptyFolder()
  const spec = rig.path('spec.json')
  writeFileSync(spec, JSON.stringify(rig.spec(['/nowhere/a.mov'])))
  for (const name of ['a.json', 'b.json', 'c.json']) copyFileSync(spec, join(pending, name))
  const target = targetOn(rig.proxx, 'ann')
  let asked = 0
  const show: Target['show'] = async (id) => {
    if (asked++ < 7) throw Object.assign(new Error('connection reset'), { code: 'ECONNRESET' })
    return target.show(id)
  }
  const watch = watching(folder, { show, submit: target.submit })
  for (const name of ['a.json', 'b.json', 'c.json']) await watch.failed(name)
  expect(watch.said('trouble')).toEqual(['connection reset'])
})

test.each([
  [{ profile: 'proxy_h265' }, /^There is no profile proxy_h265\.$/],
  [{ naming: 'proxy' }, /must contain \{index\} or \{source_name\}/],
])('a watch that could only make failed jobs of cards does not begin: %j', async (wrong, message) => {
  const { folder } = emptyFolder()
  const media = { profile: 'proxy_h264_low', output: rig.home, naming: '{index}', ...wrong }
  const rest = { settleMs: 0, needsMarker: false, signal: AbortSignal.abort(), say: () => undefined }
  const begun = watchFolder({ target: targetOn(rig.proxx, 'ann'), folder, media, ...rest })
  await expect(begun).rejects.toMatchObject({ code: 'OPTION_INVALID', message: expect.stringMatching(message) })
  expect(readdirSync(folder)).toEqual(['pending'])
})
