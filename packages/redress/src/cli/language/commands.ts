import { join } from 'node:path'
import type { AppCommand } from '../../http/app-module.ts'
import { CATALOG, type OperationName } from '../../operations/catalog.ts'
import { IS_CHECKOUT, PACKAGE } from '../../runtime/manifest.ts'

/** What can be typed after `redress`. Imports nothing heavy: help and a wrong word must be answered at once. */
export interface Command {
  words: readonly string[]
  /** Positional arguments in order: `<id>` is required, `[input]` is optional. */
  positionals: readonly { name: string; isNeeded: boolean }[]
  summary: string
  /** An operation of the table, a program of the command line itself, or a command of an app. */
  does: { operation: OperationName } | { program: ProgramName } | { app: string; command: AppCommand }
  mutates: boolean
}

export type ProgramName =
  | 'start'
  | 'worker'
  | 'events'
  | 'doctor'
  | 'migrate'
  | 'copy'
  | 'import'
  | 'init'
  | 'backup'
  | 'restore'
  | 'completion'
  | 'jobs-wait'
  | 'dead-letters-export'
  | 'policy-check'
  | 'policy-simulate'

interface ProgramLine {
  cli: string
  program: ProgramName
  summary: string
}

/** Commands of one word. */
const SINGLE: readonly ProgramLine[] = [
  {
    cli: 'init [folder]',
    program: 'init',
    summary: 'Make a TypeScript project with a job type and a test, or add them to an existing project.',
  },
  {
    cli: 'start',
    program: 'start',
    summary: 'Start the server and a worker, with your app or with installed apps.',
  },
  {
    cli: 'worker [file]',
    program: 'worker',
    summary: 'Start a worker with the app of a module, or with installed apps.',
  },
  { cli: 'events', program: 'events', summary: 'Follow live events, one per line, until Ctrl-C.' },
  {
    cli: 'doctor',
    program: 'doctor',
    summary: 'Check the store, workers and waiting jobs, and suggest fixes. Changes nothing.',
  },
  { cli: 'migrate', program: 'migrate', summary: 'Create or migrate the tables of a store.' },
  {
    cli: 'copy',
    program: 'copy',
    summary: 'Copy a store into an empty store, for example from SQLite to PostgreSQL.',
  },
  {
    cli: 'import <system>',
    program: 'import',
    summary: 'Import what waits and what failed from BullMQ or pg-boss. The source is only read.',
  },
  {
    cli: 'backup <file>',
    program: 'backup',
    summary: 'Back up a store, also while it is in use, to one verified file.',
  },
  { cli: 'restore <file>', program: 'restore', summary: 'Restore a backup into a new store.' },
  { cli: 'completion <shell>', program: 'completion', summary: 'Print a shell completion script.' },
]

/** Those that stand in a group, after its operations. */
const GROUPED: readonly ProgramLine[] = [
  { cli: 'jobs wait <id>', program: 'jobs-wait', summary: 'Wait until a job has ended, and report its outcome.' },
  {
    cli: 'dead-letters export',
    program: 'dead-letters-export',
    summary: 'Export all matching dead letters as JSON lines or protobuf messages.',
  },
  {
    cli: 'policy check <file>',
    program: 'policy-check',
    summary: 'Check a policy file (JSON), or the policies of an app.',
  },
  {
    cli: 'policy simulate <file>',
    program: 'policy-simulate',
    summary: 'Print the timeline that a policy gives to a sequence of outcomes.',
  },
]

export const COMMANDS: readonly Command[] = [
  ...SINGLE.map(fromProgram),
  ...Object.entries(CATALOG).map(([name, entry]) => ({
    ...form(entry.cli),
    summary: entry.summary,
    mutates: entry.mutates,
    does: { operation: name as OperationName },
  })),
  ...GROUPED.map(fromProgram),
]

/** Short names of frequent commands. */
export const ALIASES: Readonly<Record<string, string>> = {
  submit: 'jobs submit',
  explain: 'jobs explain',
  retry: 'jobs retry',
  wait: 'jobs wait',
}

function fromProgram({ cli, program, summary }: ProgramLine): Command {
  return { ...form(cli), summary, mutates: false, does: { program } }
}

/** 'jobs show <id>' as words and positionals. */
export function form(cli: string): Pick<Command, 'words' | 'positionals'> {
  const parts = cli.split(' ')
  const isWord = (part: string) => /^[a-z]/.test(part)
  return {
    words: parts.filter(isWord),
    positionals: parts
      .filter((part) => !isWord(part))
      .map((part) => ({ name: part.slice(1, -1), isNeeded: part.startsWith('<') })),
  }
}

/** The groups of commands: `jobs`, `policy`, ... */
export const groupsOf = (commands: readonly Command[]): string[] => [
  ...new Set(commands.filter(({ words }) => words.length > 1).map(({ words }) => words[0] as string)),
]

export const GROUPS: readonly string[] = groupsOf(COMMANDS)

export const commandNamed = (name: string, commands = COMMANDS): Command | undefined =>
  commands.find(({ words }) => words.join(' ') === (ALIASES[name] ?? name))

export const commandsOf = (group: string, commands = COMMANDS): Command[] =>
  commands.filter(({ words }) => words.length > 1 && words[0] === group)

export const nameOf = ({ words }: Command): string => words.join(' ')

export function usageOf(command: Command): string {
  const places = command.positionals.map(({ name, isNeeded }) => (isNeeded ? `<${name}>` : `[${name}]`))
  return [...command.words, ...places].join(' ')
}

/** How to call this command from `cwd`, for lines that a person pastes: only a global installation is on the PATH. */
export function commandName(cwd = process.cwd()): string {
  const checkout = join(PACKAGE, '../..')
  if (IS_CHECKOUT) return cwd === checkout ? 'npx redress' : join(PACKAGE, 'bin/redress')
  return PACKAGE.startsWith(join(cwd, 'node_modules')) ? 'npx redress' : 'redress'
}

/** For a shell: quoted only where it must be. */
export function quoted(text: string): string {
  return /^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}
