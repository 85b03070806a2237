import { RedressError } from '../../core/errors.ts'
import { durationMs } from '../../core/text/duration.ts'
import { printable } from '../../core/text/printable.ts'
import type { AppCommand, CommandCall, CommandTarget, OpenOptions } from '../../http/app-command.ts'
import { silentLog } from '../../runtime/log.ts'
import { commandName } from '../language/command-name.ts'
import type { Command } from '../language/commands.ts'
import { type Parsed, usage } from '../language/parse.ts'
import { addressHere, chosenServer } from '../target/target.ts'
import { columns } from '../terminal/columns.ts'
import { currentUser } from '../terminal/current-user.ts'
import { terminalOf } from '../terminal/terminal.ts'
import { homeOf } from './apps.ts'

/** One call of an app's command. */
export function callOf(appName: string, does: AppCommand, command: Command, parsed: Parsed): CommandCall {
  const { values, positionals } = parsed
  const text = (option: string): string | undefined => {
    const value = values[option]
    return typeof value === 'string' ? value : undefined
  }
  const print = (words: string): void => void process.stdout.write(printable(words))

  async function open({ mayBeMissing = false }: OpenOptions = {}): Promise<CommandTarget> {
    const server = does.server ? chosenServer(values) : null
    if (server !== null) {
      if (values.actor !== undefined) {
        throw usage(command, '--actor is for the store itself: a server knows who you are by your token.')
      }
      const { openRemote } = await import('../target/remote.ts')
      return { kind: 'server', ...openRemote(server.address, values, server.isGiven) }
    }
    const { openLocal } = await import('../target/local.ts')
    const target = await openLocal(values, undefined, addressHere(), { mayBeMissing })
    const surroundings = { home: homeOf(target.app, appName), env: process.env, log: silentLog }
    return { kind: 'store', ...target, actor: text('actor') ?? currentUser(), surroundings }
  }

  return {
    arguments: positionals,
    isJson: values.json === true,
    text,
    flag: (option) => values[option] === true,
    number(option, least) {
      const given = text(option)
      if (given === undefined || (Number.isInteger(Number(given)) && Number(given) >= least)) {
        return given === undefined ? undefined : Number(given)
      }
      throw new RedressError('OPTION_INVALID', `--${option} must be a whole number from ${least} on, not ${given}.`)
    },
    durationMs(option) {
      const given = text(option)
      return given === undefined ? undefined : durationMs(given, `--${option}`)
    },
    open,
    print,
    printJson: (value) => void process.stdout.write(`${JSON.stringify(value, null, 2)}\n`),
    printJsonLine: (value) => void process.stdout.write(`${JSON.stringify(value)}\n`),
    printTable: (rows, shape) =>
      void process.stdout.write(columns(rows, shape, terminalOf(process.stdout, process.env, Date.now()))),
    note: (words) => void process.stderr.write(printable(`${words}\n`)),
    log: async (level) => (await import('../../runtime/json-log.ts')).jsonLog({ level }),
    commandName: commandName(),
    usage: (message) => usage(command, message),
  }
}
