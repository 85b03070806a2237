import { chmodSync, chownSync, existsSync, linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { smallDisk } from '../../../../test/support/stores/small-disk.ts'
import { deliverAll } from '../../src/transcode/transcode-job.ts'
import { makeClip, needsFfmpeg, withFfmpeg } from '../clips.ts'
import { filesIn, Rig } from '../rig.ts'

needsFfmpeg()
const rig = Rig.open()
let clip: string

beforeAll(async () => {
  clip = await makeClip(rig.path('a.mov'))
})

describe('a read-only output directory', () => {
  const specOn = (directory: string) => ({ ...rig.spec([clip]), output: { directory, naming: 'x' } })

  test('an output directory that is read-only at submission fails the job before dispatch [P3]', async (context) => {
    const disk = smallDisk(context)
    disk.freeze()
    const job = await rig.submit(specOn(disk.folder))
    expect(job).toMatchObject({
      status: 'failed',
      executionAttempted: false,
      error: { class: 'pre_dispatch', code: 'OUTPUT_NOT_WRITABLE' },
    })
    expect(job.error?.detail).toContain('is on a read-only file system')
  })

  test('an output directory that becomes read-only before dispatch is a dispatch failure [P11]', async (context) => {
    const disk = smallDisk(context)
    const { id } = await rig.submit(specOn(disk.folder))
    disk.freeze()
    expect(await rig.ended(id)).toMatchObject({
      status: 'failed',
      executionAttempted: false,
      error: { class: 'dispatch', code: 'DISPATCH_NO_RESOURCES' },
    })
    expect(filesIn(disk.folder)).toEqual([])
  })

  test.for([
    ['before ffmpeg opens its output', 'encode', 'OUTPUT_NOT_WRITABLE', 'execution'],
    ['after the encode', 'verify', 'VERIFY_DELIVERY', 'verification'],
  ])(
    'an output directory that becomes read-only %s fails the job and names the lock that stays [P20]',
    async ([, stage, code, kind], context) => {
      const disk = smallDisk(context)
      withFfmpeg(rig.folder, `if [ $STAGE = ${stage} ]; then mount -o remount,ro '${disk.folder}' || exit 9; fi`)
      const job = await rig.done(specOn(disk.folder))
      expect(job).toMatchObject({ status: 'failed', outputs: [], fingerprint: null, error: { code, class: kind } })
      expect(filesIn(disk.folder)).not.toContain('x.mov')
      expect(rig.failureLine(job.id)).toMatchObject({
        code,
        context: { notReleased: expect.stringContaining('EROFS') },
      })
    },
  )
})

test('a delivery that cannot be rolled back completely names the files that remain [P2]', async () => {
  const directory = rig.output()
  const clips = ['first', 'second', 'third'].map((name, at) => {
    const target = join(directory, name)
    writeFileSync(`${target}.partial`, `of ${name}`)
    return { number: at + 1, source: '', name, target, partial: `${target}.partial` }
  })
  const before = async ({ name }: { name: string }) => {
    if (name !== 'third') return
    writeFileSync(join(directory, 'third'), 'precious')
    // What is a folder by now cannot be removed as a file.
    rmSync(join(directory, 'first'))
    mkdirSync(join(directory, 'first'))
  }
  await expect(deliverAll(clips, before)).rejects.toMatchObject({
    code: 'EEXIST',
    message: expect.stringMatching(/first could not be taken back \(E[A-Z]+\)$/),
  })
  expect(filesIn(directory)).toEqual(['first', 'first.partial', 'second.partial', 'third', 'third.partial'])
})

describe('where a file may not be linked, an output is moved to its name', () => {
  const NOBODY = 65_534

  /** Linux lets nobody link a file that is another's to write, and lets the owner of its folder move it all the same. */
  async function asNobody(folder: string, skip: (why: string) => void, act: () => Promise<void>): Promise<void> {
    const isGuarded = existsSync('/proc/sys/fs/protected_hardlinks')
    if (
      !isGuarded ||
      readFileSync('/proc/sys/fs/protected_hardlinks', 'utf8').trim() !== '1' ||
      process.geteuid?.() !== 0
    )
      return skip('only where this process may become somebody else, and links are guarded')
    chmodSync(rig.folder, 0o755)
    chownSync(folder, NOBODY, NOBODY)
    process.seteuid?.(NOBODY)
    try {
      await act()
    } finally {
      process.seteuid?.(0)
    }
  }

  test('a delivery overwrites nothing and is never left half done', async ({ skip }) => {
    const directory = rig.output()
    const clips = ['first', 'second', 'taken'].map((name, at) => {
      const target = join(directory, name)
      const partial = `${target}.partial`
      writeFileSync(partial, `of ${name}`)
      return { number: at + 1, source: '', name, target, partial }
    })
    writeFileSync(join(directory, 'taken'), 'precious')
    const before = async () => undefined
    await asNobody(directory, skip, async () => {
      expect(() => linkSync(String(clips[0]?.partial), join(directory, 'link'))).toThrow('EPERM')
      await expect(deliverAll(clips, before)).rejects.toMatchObject({ code: 'EEXIST' })
      expect(filesIn(directory)).toEqual(['first.partial', 'second.partial', 'taken', 'taken.partial'])
      await deliverAll(clips.slice(0, 2), before)
    })
    const found = filesIn(directory).map((name) => readFileSync(join(directory, name), 'utf8'))
    expect(found).toEqual(['of first', 'of second', 'precious', 'of taken'])
    expect(filesIn(directory)).toEqual(['first', 'second', 'taken', 'taken.partial'])
  })
})
