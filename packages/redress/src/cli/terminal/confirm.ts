import { createInterface } from 'node:readline/promises'
import type { Readable, Writable } from 'node:stream'
import { RedressError } from '../../core/errors.ts'
import { ownOption, type Parsed } from '../language/parse.ts'

export const YES_OPTION = ownOption('yes', 'flag', 'do it without being asked: it cannot be undone')

/** Somebody must be there to read the question, and to answer it. */
export const canAsk = ({ json }: Parsed['values']): boolean =>
  process.stdin.isTTY === true && process.stderr.isTTY === true && json !== true

export const refuseUnasked = (command: string): RedressError =>
  new RedressError(
    'CONFIRMATION_REQUIRED',
    `redress ${command} cannot be undone, and there is nobody here who could be asked.`,
  )

interface Streams {
  input: Readable
  output: Writable
}

const TERMINAL: Streams = { input: process.stdin, output: process.stderr }

/** Whoever says nothing says no. */
export async function ask(question: string, { input, output }: Streams = TERMINAL): Promise<void> {
  const lines = createInterface({ input, output })
  const closed = new Promise<string>((resolve) => lines.once('close', () => resolve('')))
  const answer = await Promise.race([lines.question(`${question} [y/N] `), closed])
  lines.close()
  if (/^y(es)?$/i.test(answer.trim())) return
  throw new RedressError('CONFIRMATION_REQUIRED', 'Nothing was done: it was not confirmed.', {
    action: 'Answer y to do it, or add --yes.',
  })
}
