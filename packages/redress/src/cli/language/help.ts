import type { InstalledPackage } from '../apps/installed.ts'
import { ALIASES, COMMANDS, type Command, commandName, commandNamed, commandsOf, GROUPS, usageOf } from './commands.ts'
import { COMMON_OPTIONS, type OptionSpec, SERVER_OPTIONS } from './parse.ts'

const INDENT = '  '

/** What each exit code means; which errors have it is in the table of errors. */
export const EXIT_CODES: Readonly<Record<number, string>> = {
  0: 'done',
  1: 'an error',
  2: 'invalid usage or input',
  3: 'not found',
  4: 'not allowed, or not possible in this state',
  5: 'not now: the store or the server is unreachable or busy, or a timeout expired',
  6: 'partly done',
  7: 'the job failed',
}

export function overview(apps: readonly InstalledPackage[]): string {
  const single = COMMANDS.filter(({ words }) => words.length === 1)
  // Groups with one command share one heading.
  const [large, small] = [
    GROUPS.filter((group) => commandsOf(group).length > 1),
    GROUPS.filter((group) => commandsOf(group).length === 1),
  ]
  return [
    'redress: a job server in which every failure is explained and can be audited.',
    '',
    `Usage: redress <command> [options]`,
    '',
    ...section('Run', single),
    ...large.flatMap((group) => section(titleOf(group), commandsOf(group))),
    ...section(
      'Other',
      small.flatMap((group) => commandsOf(group)),
    ),
    ...appSection(apps),
    'Aliases',
    ...rows(
      Object.entries(ALIASES).map(([short, long]) => {
        const [, ...places] = usageOf(commandNamed(long) as Command).split(long)
        return [`${short}${places.join('')}`, `the same as ${long}`]
      }),
    ),
    '',
    'Options of every command',
    ...rows(COMMON_OPTIONS.map((option) => [spelled(option), description(option)])),
    '',
    'Options of commands that can use a server',
    ...rows(SERVER_OPTIONS.map((option) => [spelled(option), description(option)])),
    '',
    `Exit codes: ${Object.entries(EXIT_CODES)
      .map(([code, meaning]) => `${code} ${meaning}`)
      .join('; ')}.`,
    `Start with \`${commandName()} start\`. For the options of a command, add --help.`,
    '',
  ].join('\n')
}

/** From their package.json only: loading every app would take too long. */
function appSection(apps: readonly InstalledPackage[]): string[] {
  const lines = apps.flatMap(({ package: name, commands }) =>
    commands.map((word) => [word, `from ${name}; see \`${commandName()} ${word} --help\``]),
  )
  return lines.length === 0 ? [] : ['Commands of installed apps', ...rows(lines), '']
}

export function groupHelp(group: string, commands: readonly Command[]): string {
  const own = commandsOf(group, commands)
  return [`Usage: redress ${group} <command> [options]`, '', ...section(titleOf(group), own)].join('\n')
}

export interface Details {
  options: readonly OptionSpec[]
  /** Descriptions of the positional arguments. */
  places: readonly { name: string; description: string }[]
  examples: readonly string[]
  /** Those that mean something of their own here. */
  exitCodes?: Readonly<Record<number, string>>
}

export function commandHelp(command: Command, { options, places, examples, exitCodes }: Details): string {
  return [
    `Usage: redress ${usageOf(command)} [options]`,
    '',
    command.summary,
    ...(places.length === 0 ? [] : ['', ...rows(places.map(({ name, description }) => [name, description]))]),
    ...(options.length === 0
      ? []
      : ['', 'Options', ...rows(options.map((option) => [spelled(option), description(option)]))]),
    '',
    'Options of every command',
    ...rows(COMMON_OPTIONS.map((option) => [spelled(option), description(option)])),
    ...(examples.length === 0 ? [] : ['', 'Examples', ...examples.map((example) => INDENT + example)]),
    ...(exitCodes === undefined ? [] : ['', 'Exit codes', ...rows(Object.entries(exitCodes))]),
    '',
  ].join('\n')
}

export function spelled({ option, kind, choices, value, bare }: OptionSpec): string {
  if (bare !== undefined) return `--${option} [${value}]`
  if (value !== undefined) return `--${option} ${value}`
  const values: Record<OptionSpec['kind'], string> = {
    flag: '',
    text: ' TEXT',
    number: ' N',
    json: ' JSON',
    choice: ` ${choices.join('|')}`,
  }
  return `--${option}${values[kind]}`
}

export function description({ description: text, fallback }: OptionSpec): string {
  return fallback === null ? text : `${text} [${fallback}]`
}

const titleOf = (group: string): string => `${group.charAt(0).toUpperCase()}${group.slice(1).replace('-', ' ')}`

const section = (title: string, commands: readonly Command[]): string[] => [
  title,
  ...rows(commands.map((command) => [usageOf(command), command.summary])),
  '',
]

function rows(pairs: readonly (readonly string[])[]): string[] {
  const width = Math.min(34, Math.max(...pairs.map(([name = '']) => name.length)))
  return pairs.map(([name = '', text = '']) => {
    // A long name keeps its own line, or it would push every description to the right.
    const gap = name.length > width ? `\n${INDENT}${' '.repeat(width)}` : ''
    return `${INDENT}${name.padEnd(width)}${gap}${INDENT}${text}`
  })
}
