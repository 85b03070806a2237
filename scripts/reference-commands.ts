import { allAppCommands } from '../packages/redress/src/cli/apps/app-commands.ts'
import { ALIASES, COMMANDS, type Command, nameOf, usageOf } from '../packages/redress/src/cli/language/commands.ts'
import { description, spelled } from '../packages/redress/src/cli/language/help.ts'
import { COMMON_OPTIONS, type OptionSpec } from '../packages/redress/src/cli/language/parse.ts'
import { type Program, programOf } from '../packages/redress/src/cli/programs.ts'
import { CATALOG } from '../packages/redress/src/operations/catalog.ts'
import { fenced, page, table } from './reference-text.ts'

/** In a checkout, the four systems are installed. */
const ALL = [...COMMANDS, ...(await allAppCommands())]
const programs = new Map(await Promise.all(ALL.map(async (command) => [command, await programOf(command)] as const)))

/**
 * What the help of each command says, as a file of the command line: working it out takes the schema library and all
 * operations, which take three times as long to load as help may take.
 */
export function commandDetails(): string {
  const lines = COMMANDS.map((command) => {
    const { options, places, examples } = programs.get(command) as Program
    return `  ${JSON.stringify(nameOf(command))}: ${JSON.stringify({ options, places, examples })},`
  })
  return `// Made by \`npm run docs\` from the tables in packages/redress/src/ and scripts/. Change those, not this file.
import type { Details } from './help.ts'

export const DETAILS: Readonly<Record<string, Details>> = {
${lines.join('\n')}
}
`
}

export function commandsPage(): string {
  const short = Object.entries(ALIASES).map(([alias, name]) => `\`redress ${alias}\` is \`redress ${name}\``)
  return page(
    'Commands',
    `Data goes to standard output, everything said to a person to standard error. With \`--json\` both are JSON: a list is an
array (with \`--jsonl\` a line for each item), and where it goes on stands on standard error. What the exit codes mean is in [errors](errors.md#exit-codes). ${short.join(', ')}, and a bare group is its list: \`redress jobs\`.`,
    '## Options of every command',
    optionsTable(COMMON_OPTIONS),
    `Commands that a server can do as well have \`--server\` and \`--token-file\`; see [the guide](../guides/operate/command-line.md).`,
    ...ALL.flatMap(section),
  )
}

function section(command: Command): string[] {
  const program = programs.get(command)
  if (program === undefined) throw new Error(`there is no program for ${nameOf(command)}`)
  const { options, places, examples, exitCodes = {} } = program
  const { does } = command
  const route =
    'operation' in does ? [`HTTP: \`${CATALOG[does.operation].http}\`, from role ${CATALOG[does.operation].role}.`] : []
  const origin = 'app' in does ? [`Comes with the app ${does.app}.`] : []
  const codes = Object.entries(exitCodes).map(([code, meaning]) => `Exit code ${code}: ${meaning}.`)
  return [
    `## redress ${nameOf(command)}`,
    fenced(`redress ${usageOf(command)} [options]`),
    [command.summary, ...route, ...origin, ...codes].join(' '),
    ...(places.length === 0
      ? []
      : [
          table(
            ['place', 'what'],
            places.map((place) => [`\`${place.name}\``, place.description]),
          ),
        ]),
    ...(options.length === 0 ? [] : [optionsTable(options)]),
    ...(examples.length === 0 ? [] : [fenced(examples.join('\n'), 'sh')]),
  ]
}

const optionsTable = (options: readonly OptionSpec[]): string =>
  table(
    ['option', 'what'],
    options.map((option) => [`\`${spelled(option)}\``, description(option)]),
  )
