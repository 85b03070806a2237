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

export type ProgramName =
  | 'start'
  | 'worker'
  | 'gateway'
  | 'events'
  | 'doctor'
  | 'migrate'
  | 'copy'
  | 'backup'
  | 'restore'
  | 'completion'
  | 'jobs-wait'
  | 'dead-letters-export'
  | 'policy-check'
  | 'policy-simulate'
  | 'proxx-validate'
  | 'proxx-submit'
  | 'proxx-watch'
  | 'proxx-retry'
  | 'proxx-mark-failed'
  | 'proxx-orphans'
  | 'proxx-verify'

interface ProgramLine {
  cli: string
  program: ProgramName
  summary: string
}

/** Commands of one word. */
const SINGLE: readonly ProgramLine[] = [
  {
    cli: 'start',
    program: 'start',
    summary: 'Serve HTTP and run a worker: with your app, or with the systems that ship with it.',
  },
  {
    cli: 'worker [file]',
    program: 'worker',
    summary: 'Run a worker with the app that a module exports, or with systems that ship with it.',
  },
  {
    cli: 'gateway',
    program: 'gateway',
    summary: 'Serve the converter of pdf-xml on its own: PDF in, XML out.',
  },
  { cli: 'events', program: 'events', summary: 'Follow what happens, one line per event, until Ctrl-C.' },
  {
    cli: 'doctor',
    program: 'doctor',
    summary: 'Check the store and what waits in it, and say what to do about what is wrong. Changes nothing.',
  },
  { cli: 'migrate', program: 'migrate', summary: 'Bring the tables of a store up to date, or make them.' },
  {
    cli: 'copy',
    program: 'copy',
    summary: 'Copy a whole store into an empty one: from a file to PostgreSQL, or any other way.',
  },
  {
    cli: 'backup <file>',
    program: 'backup',
    summary: 'Copy a store that is in use into one file, whole and checked.',
  },
  { cli: 'restore <file>', program: 'restore', summary: 'Make a store of a backup, in an empty place.' },
  { cli: 'completion <shell>', program: 'completion', summary: 'Print what makes a shell complete these commands.' },
]

/** Those that stand in a group, after its operations. */
const GROUPED: readonly ProgramLine[] = [
  { cli: 'jobs wait <id>', program: 'jobs-wait', summary: 'Wait until a job has ended, and say how.' },
  {
    cli: 'dead-letters export',
    program: 'dead-letters-export',
    summary: 'Write all dead letters that match, as lines of JSON or as protobuf messages.',
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
  {
    cli: 'proxx validate <file>',
    program: 'proxx-validate',
    summary: 'Check a spec for proxx, and all that it names. Records nothing.',
  },
  {
    cli: 'proxx submit <file>',
    program: 'proxx-submit',
    summary: 'Submit a spec to proxx. One that is refused is recorded as a failed job.',
  },
  {
    cli: 'proxx watch <folder>',
    program: 'proxx-watch',
    summary: 'Make a job of everything that is dropped into a folder, until Ctrl-C.',
  },
  {
    cli: 'proxx retry <id>',
    program: 'proxx-retry',
    summary: 'Make a new job from a failed one, with the same spec or another. The failed one stays as it is.',
  },
  {
    cli: 'proxx mark-failed <id>',
    program: 'proxx-mark-failed',
    summary: 'Say of a job whose worker is gone that it has failed.',
  },
  {
    cli: 'proxx orphans',
    program: 'proxx-orphans',
    summary: 'List the jobs whose worker is silent, and that wait for a person.',
  },
  {
    cli: 'proxx verify <id>',
    program: 'proxx-verify',
    summary: 'Verify again what a complete job delivered.',
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

/** Shorter words for what is typed most. */
export const ALIASES: Readonly<Record<string, string>> = {
  submit: 'jobs submit',
  explain: 'jobs explain',
  retry: 'jobs retry',
  wait: 'jobs wait',
}

function fromProgram({ cli, program, summary }: ProgramLine): Command {
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
