import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { afterAll, describe, expect, test } from 'vitest'
import { smallDisk } from '../../../../test/support/stores/small-disk.ts'
import { FetchFailure } from '../../src/failures/failure.ts'
import { Spool } from '../../src/transfer/spool.ts'
import { openFiles } from './open-files.ts'

const folder = mkdtempSync(join(tmpdir(), 'redress-spool-'))
afterAll(() => rmSync(folder, { recursive: true }))

async function fill(spool: Spool, bytes: number, pieceBytes = 60_001): Promise<Buffer> {
  const data = Buffer.alloc(bytes)
  for (let at = 0; at + 4 <= bytes; at += 1000) data.writeUInt32BE(at, at)
  for (let at = 0; at < bytes; at += pieceBytes) await spool.write(data.subarray(at, at + pieceBytes))
  await spool.finish()
  return data
}

const sum = (data: Buffer): string => createHash('sha256').update(data).digest('hex')

async function thrownBy(work: Promise<unknown>): Promise<FetchFailure> {
  const error = await work.then(
    () => new Error('it went well'),
    (thrown: unknown) => thrown,
  )
  if (error instanceof FetchFailure) return error
  throw error
}

describe('the spool', () => {
  test.each([
    [0, 'memory'],
    [1, 'memory'],
    [262_144, 'memory'],
    [262_145, 'file'],
    [3_000_000, 'file'],
  ])('%i bytes are kept in %s and read again as they came, twice', async (bytes, place) => {
    const spool = new Spool({ folder })
    const data = await fill(spool, bytes)
    expect(spool.place).toBe(place)
    expect(spool.bytes).toBe(bytes)
    const both = await Promise.all([buffer(spool.open()), buffer(spool.open())])
    expect(both.map(sum)).toEqual([sum(data), sum(data)])
    await spool.remove()
  })

  test.each([1, 7, 8191, 8192, 20_000])('pieces of %i bytes come out as they went in', async (pieceBytes) => {
    for (const bytes of [100_000, 300_000]) {
      const spool = new Spool({ folder })
      const data = await fill(spool, bytes, pieceBytes)
      expect(sum(await buffer(spool.open()))).toBe(sum(data))
      await spool.remove()
    }
  })

  test('small and large pieces stay in their order', async () => {
    const spool = new Spool({ folder, memoryBytesMax: 10 ** 6 })
    const pieces = [10, 9000, 10, 20_000, 8191, 8192, 5].map((bytes, i) => Buffer.alloc(bytes, `${i}`))
    for (const piece of pieces) await spool.write(piece)
    await spool.finish()
    expect(sum(await buffer(spool.open()))).toBe(sum(Buffer.concat(pieces)))
  })

  test('an origin that sends single bytes does not fill the memory with small buffers', async () => {
    const spool = new Spool({ folder })
    await fill(spool, 200_000, 1)
    const pieces: Buffer[] = []
    for await (const piece of spool.open()) pieces.push(piece)
    expect(pieces.length).toBeLessThan(20)
  })

  test('its file has no name, so that nothing is left however the process ends; remove gives the room back', async () => {
    const spool = new Spool({ folder, memoryBytesMax: 10 })
    await fill(spool, 1_000_000)
    expect(readdirSync(folder)).toEqual([])
    expect(openFiles(folder)).toHaveLength(1)
    await spool.remove()
    await spool.remove()
    expect(openFiles(folder)).toEqual([])
  })

  test('a reader that goes away in the middle disturbs no other', async () => {
    const spool = new Spool({ folder, memoryBytesMax: 10 })
    const data = await fill(spool, 1_000_000)
    const impatient = spool.open()
    for await (const _ of impatient) break
    expect(sum(await buffer(spool.open()))).toBe(sum(data))
    await spool.remove()
  })

  test('a full disk is SYSTEM_SPOOL_FULL, and the spooled part is removed', async (context) => {
    const disk = smallDisk(context)
    const work = join(disk.folder, 'work')
    mkdirSync(work)
    const spool = new Spool({ folder: work, memoryBytesMax: 10 })
    const failure = await thrownBy(fill(spool, 8 * 2 ** 20))
    expect(failure).toMatchObject({ code: 'SYSTEM_SPOOL_FULL', context: { errno: 'ENOSPC' } })
    expect(failure.message).not.toContain(disk.folder)
    await spool.remove()
    const next = new Spool({ folder: work, memoryBytesMax: 10 })
    await fill(next, 2 * 2 ** 20)
    await next.remove()
  })

  test('a missing work folder is SYSTEM_SPOOL_FAILED, and its path is not shown', async () => {
    const failure = await thrownBy(fill(new Spool({ folder: join(folder, 'gone'), memoryBytesMax: 10 }), 1000))
    expect(failure).toMatchObject({ code: 'SYSTEM_SPOOL_FAILED', context: { errno: 'ENOENT' } })
    expect(failure.message).not.toContain(folder)
  })
})
