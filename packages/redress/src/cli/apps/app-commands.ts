import { RedressError } from '../../core/errors.ts'
import type { AppCommand, CommandOption } from '../../http/app-command.ts'
import type { AppModule } from '../../http/app-module.ts'
import type { Program } from '../invoke.ts'
import { type Command, form } from '../language/commands.ts'
import type { Details } from '../language/help.ts'
import { ACTOR_OPTION, type OptionSpec, SERVER_OPTIONS } from '../language/parse.ts'
import { installedApps, namedApps } from './installed.ts'
import { loadModule } from './load.ts'

/** The commands of apps that begin with this word; none where no app brings it. */
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
      const { callOf } = await import('./app-call.ts')
      return (await command.run(callOf(app, command, called, parsed))) ?? 0
    },
  }
}
