import { ALIASES, COMMANDS, type Command, nameOf, usageOf } from '../src/cli/commands.ts'
import { description, spelled } from '../src/cli/help.ts'
import { programOf } from '../src/cli/invoke.ts'
import { COMMON_OPTIONS, type OptionSpec } from '../src/cli/parse.ts'
import { CATALOG } from '../src/operations/catalog.ts'
import { fenced, page, table } from './reference-text.ts'

const programs = new Map(
  await Promise.all(COMMANDS.map(async (command) => [command, await programOf(command)] as const)),
)

/**
 * What the help of each command says, as a file of the command line: working it out takes the schema library and all
 * operations, which take three times as long to load as help may take.
 */
export function commandDetails(): string {
  const lines = [...programs].map(([command, { options, places, examples }]) => {
    return `  ${JSON.stringify(nameOf(command))}: ${JSON.stringify({ options, places, examples })},`
  })
  return `// Made by \`npm run docs\` from the tables in src/. Change those, not this file.
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
    `Commands that a server can do as well have \`--server\` and \`--token-file\`; see [the guide](../guides/command-line.md).`,
    ...COMMANDS.flatMap(section),
  )
}

function section(command: Command): string[] {
  const program = programs.get(command)
  if (program === undefined) throw new Error(`there is no program for ${nameOf(command)}`)
  const { options, places, examples } = program
  const { does } = command
  const route =
    'operation' in does ? [`HTTP: \`${CATALOG[does.operation].http}\`, from role ${CATALOG[does.operation].role}.`] : []
  return [
    `## redress ${nameOf(command)}`,
    fenced(`redress ${usageOf(command)} [options]`),
    [command.summary, ...route].join(' '),
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
