import { RedressError } from '../../core/errors.ts'
import { durationMs } from '../../core/text/duration.ts'
import { printable } from '../../core/text/printable.ts'
import type {
  AppCommand,
  AppModule,
  CommandCall,
  CommandOption,
  CommandTarget,
  OpenOptions,
} from '../../http/app-module.ts'
import { silentLog } from '../../runtime/log.ts'
import { type Command, commandName, form } from '../language/commands.ts'
import type { Details } from '../language/help.ts'
import { ACTOR_OPTION, type OptionSpec, type Parsed, SERVER_OPTIONS, usage } from '../language/parse.ts'
import type { Program } from '../programs.ts'
import { addressHere, chosenServer } from '../target/target.ts'
import { columns } from '../terminal/columns.ts'
import { currentUser, terminalOf } from '../terminal/terminal.ts'
import { homeOf } from './apps.ts'
import { installedApps, namedApps } from './installed.ts'
import { loadModule } from './load.ts'

/** The commands of apps whose first word this is. */
export async function appCommandsNamed(word: string): Promise<Command[]> {
  const declaring = installedApps().filter(({ commands }) => commands.includes(word))
  const [first, second] = declaring
  if (first !== undefined && second !== undefined) {
    const message = `The command "${word}" is declared by ${first.package} and by ${second.package}.`
    throw new RedressError('APP_NOT_LOADED', message, { action: 'Uninstall one of them.' })
  }
  if (first === undefined) return (await commandsOfNamedApps()).filter(({ words }) => words[0] === word)
  const commands = commandsOf(await loadModule(first.package)).filter(({ words }) => words[0] === word)
  if (commands.length > 0) return commands
  const message = `The package.json of ${first.package} declares the command "${word}", but its AppModule has none of that name.`
  throw new RedressError('APP_NOT_LOADED', message, { action: `Report this to the authors of ${first.package}.` })
}

/** For what lists all commands: shell completion and the reference. */
export async function allAppCommands(): Promise<Command[]> {
  const words = new Set(installedApps().flatMap(({ commands }) => commands))
  const declared = await Promise.all([...words].map(appCommandsNamed))
  return [...declared.flat(), ...(await commandsOfNamedApps()).filter(({ words: [first = ''] }) => !words.has(first))]
}

/** Of the apps that $REDRESS_APPS names: a file has no package.json that could declare its commands. */
async function commandsOfNamedApps(): Promise<Command[]> {
  const modules = await Promise.all((namedApps(undefined) ?? []).map(loadModule))
  return modules.flatMap(commandsOf)
}

const commandsOf = ({ name, commands = [] }: AppModule): Command[] =>
  commands.map((command) => ({
    ...form(command.usage),
    summary: command.summary,
    mutates: false,
    does: { app: name, command },
  }))

export function detailsOfAppCommand({ options = [], actor, server, ...command }: AppCommand): Details {
  return {
    options: [...options.map(asSpec), ...(actor ? [ACTOR_OPTION] : []), ...(server ? SERVER_OPTIONS : [])],
    places: Object.entries(command.arguments ?? {}).map(([name, description]) => ({ name, description })),
    examples: command.examples ?? [],
    ...(command.exitCodes !== undefined && { exitCodes: command.exitCodes }),
  }
}

const asSpec = ({ name, choices = [], fallback, ...rest }: CommandOption): OptionSpec => ({
  field: name,
  option: name,
  choices,
  fallback: fallback ?? null,
  ...rest,
})

export function programOfApp(app: string, command: AppCommand): Program {
  return {
    ...detailsOfAppCommand(command),
    async run(called, parsed) {
      return (await command.run(callOf(app, command, called, parsed))) ?? 0
    },
  }
}

/** One call of an app's command. */
function callOf(appName: string, does: AppCommand, command: Command, parsed: Parsed): CommandCall {
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
        throw usage(command, '--actor cannot be used with a server: the server knows you by your token.')
      }
      const { openRemote } = await import('../target/remote.ts')
      return { kind: 'server', ...openRemote(server.address, values, server.isGiven) }
    }
    const { openLocal } = await import('../target/local.ts')
    const target = await openLocal(values, undefined, addressHere(), { mayBeMissing })
    const installContext = { home: homeOf(target.app, appName), env: process.env, log: silentLog }
    return { kind: 'store', ...target, actor: text('actor') ?? currentUser(), installContext }
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
      throw new RedressError('OPTION_INVALID', `--${option} must be a whole number of at least ${least}, not ${given}.`)
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
