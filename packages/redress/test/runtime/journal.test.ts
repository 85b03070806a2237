import { appendFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { smallDisk } from '../../../../test/support/stores/small-disk.ts'
import { Journal } from '../../src/runtime/journal.ts'

const linesOf = (path: string): string[] => readFileSync(path, 'utf8').split('\n').slice(0, -1)

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'redress-journal-'))
  onTestFinished(() => rmSync(made, { recursive: true }))
  return made
}

describe('a journal', () => {
  test('keeps lines in order, one write for those that come together', async () => {
    const journal = new Journal(join(folder(), 'deep', 'log.jsonl'))
    onTestFinished(() => journal.close())
    await Promise.all([1, 2, 3].map((n) => journal.append([{ n }, { again: n }])))
    expect(linesOf(journal.path)).toEqual([1, 2, 3].flatMap((n) => [`{"n":${n}}`, `{"again":${n}}`]))
  })

  test.each([
    ['of its own, from before it was killed', (path: string) => appendFileSync(path, '{"cut":"o')],
    [
      'of another process on the same file',
      (path: string) => {
        appendFileSync(path, '{"n":"theirs"}\n{"cut"')
      },
    ],
  ])('a line that was cut off, %s, swallows none that comes after it', async (_what, tear) => {
    const path = join(folder(), 'log.jsonl')
    const before = new Journal(path)
    onTestFinished(() => before.close())
    await before.append([{ n: 1 }])
    tear(path)
    await before.append([{ n: 2 }])
    tear(path)
    const after = new Journal(path)
    onTestFinished(() => after.close())
    await after.append([{ n: 3 }])
    const read = linesOf(path).filter((line) => line.endsWith('}'))
    expect(read.filter((line) => !line.includes('theirs'))).toEqual(['{"n":1}', '{"n":2}', '{"n":3}'])
  })

  test('that was removed is created again: no line goes to a deleted file', async () => {
    const journal = new Journal(join(folder(), 'log.jsonl'))
    onTestFinished(() => journal.close())
    await journal.append([{ n: 1 }])
    rmSync(journal.path)
    await journal.append([{ n: 2 }])
    expect(linesOf(journal.path)).toEqual(['{"n":2}'])
  })

  test('on a full disk refuses, and what it acknowledged before and after can be read', async (context) => {
    const disk = smallDisk(context, '256k')
    const journal = new Journal(join(disk.folder, 'log.jsonl'))
    onTestFinished(() => journal.close())
    const acknowledged: string[] = []
    const refused: unknown[] = []
    const append = async (n: string): Promise<void> => {
      // Of a length that no block is a multiple of, so that the disk is full in the middle of a line.
      await journal.append([{ n, text: 'x'.repeat(777) }]).then(
        () => acknowledged.push(n),
        (error: unknown) => refused.push(error),
      )
    }
    disk.fill()
    disk.empty()
    for (let round = 0; round < 5; round++) {
      for (let i = 0; i < 5; i++) await append(`${round}:${i}`)
      disk.fill()
      for (let i = 0; i < 20; i++) await append(`${round}:full:${i}`)
      disk.empty()
    }
    await append('last')
    expect(refused.length).toBeGreaterThan(20)
    for (const error of refused) expect(error).toMatchObject({ code: 'FAILURE_LOG_FAILED' })
    const read = linesOf(journal.path).flatMap((line) => {
      try {
        return [(JSON.parse(line) as { n: string }).n]
      } catch {
        return []
      }
    })
    expect(read.filter((n) => acknowledged.includes(n))).toEqual(acknowledged)
    expect(acknowledged.at(-1)).toBe('last')
  })
})
