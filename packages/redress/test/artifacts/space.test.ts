import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Pressure } from '../../src/artifacts/artifact-store.ts'
import type { SpaceLimits } from '../../src/artifacts/folder/space.ts'
import { artifactStore } from '../../src/artifacts/open.ts'
import { factsOf } from '../../src/core/failure/facts.ts'
import { folderBench } from './benches.ts'
import { contentOf, keysOf, refused, someBytes, streamOf } from './bytes.ts'

const MEBIBYTE = 2 ** 20

describe('bytes used', () => {
  async function open(limits: SpaceLimits) {
    const bench = folderBench()
    onTestFinished(() => bench.stop())
    const told: Pressure[] = []
    const store = await bench.open({ limits, onPressure: (pressure) => told.push(pressure) })
    return { bench, store, told }
  }

  test('past the soft limit onPressure is called once, past the hard limit puts are refused', async () => {
    const { bench, store, told } = await open({ soft: { bytesUsedMax: 1000 }, hard: { bytesUsedMax: 2000 } })
    await store.put('a', someBytes(900))
    expect(await store.pressure()).toBe('ok')
    await store.put('b', someBytes(900))
    expect(await store.pressure()).toBe('soft')
    expect(await store.pressure()).toBe('soft')
    expect(told).toEqual(['soft'])

    const error = await refused('STORAGE_FULL', store.put('c', someBytes(300)))
    expect(error.message).toBe('c was not stored: artifacts would use 2100 bytes of the 2000 they may.')
    expect(error.httpStatus).toBe(507)
    expect(told).toEqual(['soft', 'hard'])
    expect(await keysOf(store)).toEqual(['a', 'b'])

    // Removing and replacing give room back.
    await store.remove('a')
    await store.put('b', someBytes(100))
    expect(await store.usage()).toMatchObject({ bytesUsed: 100 })
    expect(await store.pressure()).toBe('ok')
    expect(told).toEqual(['soft', 'hard', 'ok'])
    expect(bench.leftovers()).toEqual([])
  })

  test('a stream of unknown length is stopped while it is written', async () => {
    const { bench, store } = await open({ hard: { bytesUsedMax: 10 * MEBIBYTE } })
    const source = streamOf(someBytes(30 * MEBIBYTE))
    await refused('STORAGE_FULL', store.put('k', source))
    expect(source.destroyed).toBe(true)
    expect(await store.usage()).toMatchObject({ bytesUsed: 0 })
    expect(bench.leftovers()).toEqual([])
  })

  test('many at once do not pass the limit together', async () => {
    const { store } = await open({ hard: { bytesUsedMax: 20 * MEBIBYTE } })
    const outcomes = await Promise.allSettled(
      Array.from({ length: 5 }, (_, i) => store.put(`k${i}`, streamOf(someBytes(9 * MEBIBYTE)))),
    )
    expect(outcomes.filter(({ status }) => status === 'rejected').length).toBeGreaterThan(0)
    const { bytesUsed } = await store.usage()
    // Each may be found out one look late.
    expect(bytesUsed).toBeLessThanOrEqual(20 * MEBIBYTE + 5 * 4 * MEBIBYTE)
  })

  test('what was there before, and what others wrote, is counted at the start and at each sweep', async () => {
    const bench = folderBench()
    onTestFinished(() => bench.stop())
    const first = await bench.open({ limits: { hard: { bytesUsedMax: 2000 } } })
    await first.put('a/b', someBytes(1500))
    const second = await bench.open({ limits: { hard: { bytesUsedMax: 2000 } } })
    await refused('STORAGE_FULL', second.put('c', someBytes(600)))
    await first.remove('a/b')
    await second.sweep()
    await second.put('c', someBytes(600))
  })
})

describe('free space', () => {
  test('as it is by default is not in the way', async () => {
    const bench = folderBench()
    onTestFinished(() => bench.stop())
    const store = await bench.open({ limits: undefined })
    await store.put('k', 'x')
    expect(['ok', 'soft']).toContain(await store.pressure())
  })

  test.each<SpaceLimits>([{ hard: { bytesFreeMin: 2 ** 60 } }, { hard: { percentFreeMin: 100 } }])(
    'the hard limit %j refuses before the first byte is read',
    async (limits) => {
      const bench = folderBench()
      onTestFinished(() => bench.stop())
      const store = await bench.open({ limits })
      expect(await store.pressure()).toBe('hard')
      await refused('STORAGE_FULL', store.put('k', streamOf(someBytes(10))))
      // Reading and removing go on: that is how room is made.
      expect(await keysOf(store)).toEqual([])
      await store.remove('k')
      await store.sweep()
    },
  )

  test('limits that make no sense are refused', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'redress-limits-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const url = `file:${folder}`
    await refused('OPTION_INVALID', artifactStore({ url, limits: { hard: { bytesFreeMin: -1 } } }))
    await refused('OPTION_INVALID', artifactStore({ url, limits: { soft: { percentFreeMin: 101 } } }))
    await refused('OPTION_INVALID', artifactStore({ url, limits: { soft: { bytesUsedMax: Number.NaN } } }))
  })
})

describe('a disk of 4 MiB', () => {
  let folder = ''
  /** A disk that is really full needs a file system of our own, and mounting one needs root. */
  let whyNot = ''
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'redress-small-disk-'))
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', folder], { stdio: 'pipe' })
    } catch (error) {
      whyNot = `no file system can be mounted here: ${String(error).split('\n')[0]}`
      console.warn(`Not tried on a full disk: ${whyNot}.`)
    }
  })
  afterAll(() => {
    if (whyNot === '') execFileSync('umount', [folder])
    rmSync(folder, { recursive: true, force: true })
  })

  test('that is full refuses with the same error as the limit, and leaves what was there', async ({ skip }) => {
    if (whyNot !== '') skip(whyNot)
    const store = await artifactStore({ url: `file:${folder}`, limits: {} })
    await store.put('before', someBytes(MEBIBYTE))
    const source = streamOf(someBytes(8 * MEBIBYTE))
    const error = await refused('STORAGE_FULL', store.put('large', source))
    expect(error.cause).toMatchObject({ code: 'ENOSPC' })
    expect(factsOf(error, 'execution').message).toMatch(/disk is full/)
    expect(source.destroyed).toBe(true)
    // The room that the failed one took is free again.
    await store.put('after', someBytes(MEBIBYTE))
    expect(await keysOf(store)).toEqual(['after', 'before'])
    expect((await contentOf(store, 'before', { verify: true })).length).toBe(MEBIBYTE)
  })

  test('is seen to come close to its limits by what others write', async ({ skip }) => {
    if (whyNot !== '') skip(whyNot)
    const told: Pressure[] = []
    const limits = { soft: { percentFreeMin: 40 }, hard: { bytesFreeMin: MEBIBYTE / 2 } }
    const store = await artifactStore({
      url: `file:${join(folder, 'shared')}`,
      limits,
      onPressure: (p) => told.push(p),
    })
    for (const key of ['after', 'before']) rmSync(join(folder, key), { force: true })
    expect(await store.pressure()).toBe('ok')
    writeFileSync(join(folder, 'of-others'), someBytes(3 * MEBIBYTE))
    expect(await store.pressure()).toBe('soft')
    await store.put('k', someBytes(1000))
    writeFileSync(join(folder, 'of-others'), someBytes(3.7 * MEBIBYTE))
    await refused('STORAGE_FULL', store.put('k', someBytes(1000)))
    expect(told).toEqual(['soft', 'hard'])
  })
})
