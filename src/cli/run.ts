import { RedressError } from '../core/errors.ts'
import { printable } from '../core/printable.ts'
import { redactAddresses } from '../core/redact.ts'
import { nameOf } from './commands.ts'
import type { Details } from './help.ts'
import { findCommand } from './parse.ts'

/** Answers one command line with an exit code. What is not needed for it is not loaded. */
export async function run(argv: readonly string[]): Promise<number> {
  try {
    const found = findCommand(argv)
    switch (found.kind) {
      case 'version': {
        const { version } = await import('./version.ts')
        process.stdout.write(`redress ${version()}\n`)
        return 0
      }
      case 'help':
        process.stdout.write(await helpOn(found.about))
        return 0
      case 'command': {
        const { invoke } = await import('./invoke.ts')
        return await invoke(found.command, found.rest)
      }
    }
  } catch (error) {
    return tell(error, argv)
  }
}

/** What went wrong, as it was asked for; and the exit code. */
export function tell(error: unknown, argv: readonly string[]): number {
  const wantsJson = argv.includes('--json') || argv.includes('--jsonl')
  // The message may repeat an argument, and a store address may have a password.
  const text = wantsJson ? `${JSON.stringify({ error: asJson(error) })}\n` : inWords(error)
  process.stderr.write(redactAddresses(text))
  return error instanceof RedressError ? error.exitCode : 1
}

export function tellUnwritten(cause: NodeJS.ErrnoException, argv: readonly string[]): number {
  const message = `What was asked for cannot be printed: ${cause.code ?? 'writing failed'}.`
  return tell(new RedressError('OUTPUT_FAILED', message, { cause }), argv)
}

async function helpOn(about: Extract<ReturnType<typeof findCommand>, { kind: 'help' }>['about']): Promise<string> {
  const { commandHelp, groupHelp, overview } = await import('./help.ts')
  if (about === null) return overview()
  if (typeof about === 'string') return groupHelp(about)
  const { DETAILS } = await import('./command-details.ts')
  return commandHelp(about, DETAILS[nameOf(about)] as Details)
}

function asJson(error: unknown): object {
  if (error instanceof RedressError) return error.toJSON()
  const message = error instanceof Error ? error.message : String(error)
  return { code: 'UNEXPECTED', message, action: 'This is a fault of redress itself: report it.' }
}

/** `CODE: message`, what is wrong in particular, and what to do. */
function inWords(error: unknown): string {
  if (!(error instanceof RedressError)) {
    const trace = error instanceof Error ? error.stack : String(error)
    return `UNEXPECTED: this is a fault of redress itself.\n${trace}\n`
  }
  // Some messages name their problems already.
  const problems = error.problems.filter((problem) => !error.message.includes(problem))
  const lines = [`${error.code}: ${error.message}`, ...problems.map((problem) => `  - ${problem}`), error.action]
  const cause = error.code === 'APP_NOT_LOADED' && error.cause instanceof Error ? [error.cause.stack ?? ''] : []
  // A server, a file or a job may have said it: it must not give orders to the terminal.
  return printable(`${[...lines, ...cause].join('\n')}\n`)
}
