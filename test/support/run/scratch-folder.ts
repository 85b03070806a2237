import { execFileSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const IN_MEMORY = '/dev/shm'
const BYTES_MIN = 4 * 2 ** 30

/**
 * A folder in memory for the temporary files of the run, or null where memory cannot hold them or programs cannot be
 * started from there. Thousands of small files and databases are made, and a disk costs more CPU time than the tests.
 * Tests that kill processes lose nothing by it: a killed process leaves its written files behind in either case.
 */
export function makeScratchFolder(): string | null {
  try {
    const { bavail, bsize } = statfsSync(IN_MEMORY)
    if (bavail * bsize < BYTES_MIN) return null
    const folder = mkdtempSync(join(IN_MEMORY, 'redress-tests-'))
    // As the folder of the system is: tests start programs as other users.
    chmodSync(folder, 0o1777)
    if (canStartPrograms(folder)) return folder
    rmSync(folder, { recursive: true })
  } catch {
    // There is none on this platform, or it is not ours to write to.
  }
  return null
}

function canStartPrograms(folder: string): boolean {
  const program = join(folder, 'program')
  writeFileSync(program, '#!/bin/sh\n')
  chmodSync(program, 0o700)
  try {
    execFileSync(program)
    return true
  } catch {
    return false
  } finally {
    rmSync(program)
  }
}
