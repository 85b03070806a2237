import { CATALOG, type OperationName } from '../operations/catalog.ts'

/** What can be typed after `redress`. Imports nothing heavy: help and a wrong word must be answered at once. */
export interface Command {
  words: readonly string[]
  /** What stands after the words, in order: `<id>` is needed, `[input]` is not. */
  positionals: readonly { name: string; isNeeded: boolean }[]
  summary: string
  /** What it is made of: an operation of the table, or the file here that does it. */
  does: { operation: OperationName } | { program: ProgramName }
  mutates: boolean
}

export type ProgramName = 'start' | 'worker' | 'doctor' | 'copy' | 'policy-check' | 'policy-simulate'

const PROGRAMS: readonly { cli: string; program: ProgramName; summary: string }[] = [
  { cli: 'start', program: 'start', summary: 'Run a worker with your app, or with a sample that fails on purpose.' },
  { cli: 'worker <file>', program: 'worker', summary: 'Run a worker with the app that a module exports.' },
  {
    cli: 'doctor',
    program: 'doctor',
    summary: 'Check the store and what waits in it, and say what to do about what is wrong. Changes nothing.',
  },
  {
    cli: 'copy',
    program: 'copy',
    summary: 'Copy a whole store into an empty one: from a file to PostgreSQL, or any other way.',
  },
  {
    cli: 'policy check <file>',
    program: 'policy-check',
    summary: 'Check a policy file (JSON), or the policies of an app.',
  },
  {
    cli: 'policy simulate <file>',
    program: 'policy-simulate',
    summary: 'Print the timeline that a policy would give to a row of outcomes.',
  },
]

export const COMMANDS: readonly Command[] = [
  ...PROGRAMS.slice(0, 4).map(fromProgram),
  ...Object.entries(CATALOG).map(([name, entry]) => ({
    ...form(entry.cli),
    summary: entry.summary,
    mutates: entry.mutates,
    does: { operation: name as OperationName },
  })),
  ...PROGRAMS.slice(4).map(fromProgram),
]

/** Shorter words for what is typed most. */
export const ALIASES: Readonly<Record<string, string>> = {
  submit: 'jobs submit',
  explain: 'jobs explain',
  retry: 'jobs retry',
}

function fromProgram({ cli, program, summary }: (typeof PROGRAMS)[number]): Command {
  return { ...form(cli), summary, mutates: false, does: { program } }
}

function form(cli: string): Pick<Command, 'words' | 'positionals'> {
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
export const GROUPS: readonly string[] = [
  ...new Set(COMMANDS.filter(({ words }) => words.length > 1).map(({ words }) => words[0] as string)),
]

export const commandNamed = (name: string): Command | undefined =>
  COMMANDS.find(({ words }) => words.join(' ') === (ALIASES[name] ?? name))

export const commandsOf = (group: string): Command[] =>
  COMMANDS.filter(({ words }) => words.length > 1 && words[0] === group)

export const nameOf = ({ words }: Command): string => words.join(' ')

export function usageOf(command: Command): string {
  const places = command.positionals.map(({ name, isNeeded }) => (isNeeded ? `<${name}>` : `[${name}]`))
  return [...command.words, ...places].join(' ')
}
