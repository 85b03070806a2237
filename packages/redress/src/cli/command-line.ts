import { RedressError } from '../core/errors.ts'
import { printable } from '../core/text/printable.ts'
import { redactAddresses } from '../core/text/redact.ts'
import { silentLog } from '../runtime/log.ts'
import { COMMANDS, type Command, nameOf } from './language/commands.ts'
import type { Details } from './language/help.ts'
import { COMMON_OPTIONS, type Found, findCommand, foreignWord, readOptions } from './language/parse.ts'

/** Runs one command line and returns its exit code. Loads only what that command needs. */
export async function runCommandLine(argv: readonly string[]): Promise<number> {
  try {
    const found = findCommand(argv, await commandsFor(argv))
    switch (found.kind) {
      case 'version': {
        const { manifest } = await import('../runtime/manifest.ts')
        process.stdout.write(`redress ${manifest().version}\n`)
        return 0
      }
      case 'help':
        process.stdout.write(await helpOn(found.about, argv))
        return 0
      case 'command': {
        const { programOf } = await import('./programs.ts')
        const { setDefaultLog } = await import('../app/default-log.ts')
        // Standard error is for the messages of the command. What serves sets a log of its own.
        setDefaultLog(silentLog)
        const program = await programOf(found.command)
        const parsed = readOptions(found.command, found.rest, [...program.options, ...COMMON_OPTIONS])
        return (await program.run(found.command, parsed)) ?? 0
      }
    }
  } catch (error) {
    return report(error, argv)
  }
}

/** An app is loaded only if the first word is not one of our own. */
async function commandsFor(argv: readonly string[]): Promise<readonly Command[]> {
  const word = foreignWord(argv)
  if (word === undefined) return COMMANDS
  const { appCommandsNamed } = await import('./apps/app-commands.ts')
  return [...COMMANDS, ...(await appCommandsNamed(word))]
}

/** Prints the error as text or JSON, and returns its exit code. */
function report(error: unknown, argv: readonly string[]): number {
  const wantsJson = argv.includes('--json') || argv.includes('--jsonl')
  // The message may repeat an argument, and a store address may have a password.
  const text = wantsJson ? `${JSON.stringify({ error: asJson(error) })}\n` : inWords(error)
  process.stderr.write(redactAddresses(text))
  return error instanceof RedressError ? error.exitCode : 1
}

export function reportUnwritten(cause: NodeJS.ErrnoException, argv: readonly string[]): number {
  const message = `The output cannot be written: ${cause.code ?? 'unknown error'}.`
  return report(new RedressError('OUTPUT_FAILED', message, { cause }), argv)
}

async function helpOn(about: Extract<Found, { kind: 'help' }>['about'], argv: readonly string[]): Promise<string> {
  const { commandHelp, groupHelp, overview } = await import('./language/help.ts')
  if (about === null) {
    const { installedApps } = await import('./apps/installed.ts')
    return overview(installedApps())
  }
  if (typeof about === 'string') return groupHelp(about, await commandsFor(argv))
  if ('app' in about.does) {
    const { detailsOfAppCommand } = await import('./apps/app-commands.ts')
    return commandHelp(about, detailsOfAppCommand(about.does.command))
  }
  const { DETAILS } = await import('./language/command-details.ts')
  return commandHelp(about, DETAILS[nameOf(about)] as Details)
}

function asJson(error: unknown): object {
  if (error instanceof RedressError) return error.toJSON()
  const message = error instanceof Error ? error.message : String(error)
  return { code: 'UNEXPECTED', message, action: 'This is a bug in redress: please report it.' }
}

/** `CODE: message`, then each problem, then what to do. */
function inWords(error: unknown): string {
  if (!(error instanceof RedressError)) {
    const trace = error instanceof Error ? error.stack : String(error)
    return `UNEXPECTED: this is a bug in redress: please report it.\n${trace}\n`
  }
  // Some messages name their problems already.
  const problems = error.problems.filter((problem) => !error.message.includes(problem))
  const lines = [`${error.code}: ${error.message}`, ...problems.map((problem) => `  - ${problem}`), error.action]
  const cause = error.code === 'APP_NOT_LOADED' && error.cause instanceof Error ? [error.cause.stack ?? ''] : []
  // The text may come from a server, a file or a job: control characters must not reach the terminal.
  return printable(`${[...lines, ...cause].join('\n')}\n`)
}
