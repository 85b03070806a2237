import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { programFile } from './processes/programs.ts'

/** The steps between a failure and the record that somebody was told of it. */
export const STEPS = [
  'failure-recorded',
  'before-relay',
  'after-relay',
  'claimed',
  'before-send',
  'after-send',
  'delivery-recorded',
] as const

export interface NotifierSetup {
  file: string
  url: string
  secret: string
  /** The id of a job that it submits, which then fails. */
  submits?: string
  dieAt?: (typeof STEPS)[number]
  aheadMs?: number
}

export const SECRET = `whsec_${Buffer.alloc(32, 5).toString('base64')}`

export function notifier(setup: Omit<NotifierSetup, 'secret'>): { ended: Promise<string | null>; stderr(): string } {
  const options = ['--conditions=redress-source', '--disable-warning=ExperimentalWarning']
  const child = spawn(
    process.execPath,
    [...options, programFile('notifier'), JSON.stringify({ ...setup, secret: SECRET })],
    {
      cwd: join(setup.file, '..'),
      stdio: ['ignore', 'ignore', 'pipe'],
    },
  )
  let stderr = ''
  child.stderr.on('data', (part: Buffer) => {
    stderr += part.toString()
  })
  const ended = new Promise<string | null>((resolve) => child.once('close', (_code, signal) => resolve(signal)))
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await ended
  })
  return { ended, stderr: () => stderr }
}
