import { execFileSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished, type TestContext } from 'vitest'

export interface SmallDisk {
  folder: string
  /** Takes all the room there is but this; a few bytes may be left in blocks that are in use already. */
  fill(options?: { butBytes: number }): void
  /** Gives the room back. */
  empty(): void
  /** From now on nothing on it can be changed. Refused while somebody writes to a file. */
  freeze(): void
}

/** A file system of a few megabytes, for what happens when it is full. The test is left out where none can be made. */
export function smallDisk({ skip }: Pick<TestContext, 'skip'>, size = '4m'): SmallDisk {
  const folder = mkdtempSync(join(tmpdir(), 'redress-small-disk-'))
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', folder], { stdio: 'pipe' })
  } catch (error) {
    rmSync(folder, { recursive: true })
    const why = `nobody may mount a small file system here: ${String(error).split('\n')[0]}`
    console.warn(`Not tried on a full disk: ${why}`)
    skip(why)
  }
  onTestFinished(() => {
    // Lazily: a process that the test leaves behind may still have a file open.
    execFileSync('umount', ['--lazy', folder])
    rmSync(folder, { recursive: true, force: true })
  })
  const ballast = join(folder, 'ballast')
  const freeBytes = (): number => {
    const { bavail, bsize } = statfsSync(folder)
    return bavail * bsize
  }
  return {
    folder,
    fill: ({ butBytes } = { butBytes: 0 }) => {
      // In pieces: what runs on the disk takes room meanwhile, and a large piece would leave some.
      const file = openSync(ballast, 'a')
      for (let bytes = 65_536; bytes > 0 && freeBytes() >= butBytes; ) {
        try {
          bytes = writeSync(file, Buffer.alloc(bytes))
        } catch (error) {
          if ((error as { code?: string }).code !== 'ENOSPC') throw error
          bytes = bytes > 4_096 ? 4_096 : 0
        }
      }
      closeSync(file)
    },
    empty: () => rmSync(ballast, { force: true }),
    freeze: () => void execFileSync('mount', ['-o', 'remount,ro', folder], { stdio: 'pipe' }),
  }
}
