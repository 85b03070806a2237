import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect } from 'vitest'
import { ProgramFailed, type ProgramOptions, runProgram } from '../../src/programs/index.ts'

export const onLinux = process.platform === 'linux'

/** A script of the shell: the shell is the program here, so this is no example for others. */
export const script = (text: string, ...args: string[]): { program: string; args: string[] } => ({
  program: 'sh',
  args: ['-c', text, 'sh', ...args],
})

export const node = (text: string): { program: string; args: string[] } => ({
  program: process.execPath,
  args: ['-e', text],
})

export async function failureOf(options: ProgramOptions): Promise<ProgramFailed> {
  const outcome: unknown = await runProgram(options).catch((error: unknown) => error)
  expect(outcome).toBeInstanceOf(ProgramFailed)
  return outcome as ProgramFailed
}

/** Of a process that lives: a zombie has ended, whoever is to blame that nobody took notice. */
export function isAlive(pid: string | number): boolean {
  try {
    if (!onLinux) return process.kill(Number(pid), 0)
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    return !/^\) [ZX]/.test(stat.slice(stat.lastIndexOf(')')))
  } catch {
    return false
  }
}

/** A folder for the files of each test. */
export function scratch(): (name: string) => string {
  let folder = ''
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'redress-programs-'))
  })
  afterEach(() => rmSync(folder, { recursive: true, force: true }))
  return (name) => join(folder, name)
}
