import { parseArgs } from 'node:util'
import { RedressError } from '../../core/errors.ts'
import { nearest } from '../../core/text/names.ts'
import type { FieldSpec } from '../../operations/field-specs.ts'
import { installedApps, SYSTEMS } from '../apps/installed.ts'
import { ALIASES, COMMANDS, type Command, commandNamed, commandsOf, groupsOf, nameOf, usageOf } from './commands.ts'

/** An option fills the field of an operation's input, or is read by a command of the CLI itself. */
export interface OptionSpec extends FieldSpec {
  /** Without the dashes. */
  option: string
  /** The value when the option is given without one. */
  bare?: string
  /** Name of the value in the help, such as FILE. */
  value?: string
}

/** An option of the command line itself, not of an operation. */
export function ownOption(
  written: string,
  kind: OptionSpec['kind'],
  description: string,
  more: Partial<Pick<OptionSpec, 'fallback' | 'choices' | 'isList' | 'bare'>> = {},
): OptionSpec {
  const [option = '', value] = written.split(' ')
  return { field: option, option, kind, choices: [], description, fallback: null, ...more, ...(value && { value }) }
}

/** Options that every command understands. */
export const COMMON_OPTIONS: readonly OptionSpec[] = [
  ownOption('data DIR', 'text', 'folder of the store file redress.db', { fallback: '.redress' }),
  ownOption(
    'store STORE',
    'text',
    'store address: sqlite:path/to/file.db or postgres://user@host/name; else $REDRESS_STORE',
  ),
  ownOption('json', 'flag', 'print JSON'),
  ownOption('help', 'flag', 'show help'),
]

/** Options of commands that work with a server or a store. There is no option for the token itself: `ps` shows arguments. */
export const SERVER_OPTIONS: readonly OptionSpec[] = [
  ownOption('server URL', 'text', 'use this server instead of a local store; else $REDRESS_SERVER'),
  ownOption('token-file FILE', 'text', 'file with the token for the server; else $REDRESS_TOKEN, $REDRESS_TOKEN_FILE'),
]

export const ACTOR_OPTION = ownOption('actor TEXT', 'text', 'who does it: recorded in the history', { fallback: 'you' })

/** Options that are allowed before the command. */
const EARLY_OPTIONS = [...COMMON_OPTIONS, ...SERVER_OPTIONS]
const isEarly = (name: string): boolean => EARLY_OPTIONS.some(({ option }) => option === name)

/** The meaning of the first words, before the options of the command are known. */
export type Found =
  | { kind: 'command'; command: Command; rest: string[] }
  | { kind: 'help'; about: Command | string | null }
  | { kind: 'version' }

/** The first word, if it is not a command of Redress itself and may belong to an app. */
export function foreignWord(argv: readonly string[]): string | undefined {
  const [first, second] = wordsOf(parse(argv, EARLY_OPTIONS).tokens).map(({ value }) => value)
  const word = first === 'help' ? second : first
  const isOwn = word === undefined || word in ALIASES || COMMANDS.some(({ words }) => words[0] === word)
  return isOwn ? undefined : word
}

/** The options of the command are not known yet, so its words must come before them. */
function wordsOf(tokens: Tokens): Extract<Tokens[number], { kind: 'positional' }>[] {
  const firstOwn = tokens.findIndex((token) => token.kind === 'option' && !isEarly(token.name))
  return tokens
    .slice(0, firstOwn === -1 ? undefined : firstOwn)
    .flatMap((token) => (token.kind === 'positional' ? [token] : []))
}

export function findCommand(argv: readonly string[], commands: readonly Command[] = COMMANDS): Found {
  const { tokens } = parse(argv, EARLY_OPTIONS)
  const words = wordsOf(tokens)
  const groups = groupsOf(commands)
  const [first, second] = words
  const asksHelp = tokens.some((token) => token.kind === 'option' && (token.name === 'help' || token.name === 'h'))
  if (first === undefined) {
    const asksVersion = tokens.some((token) => token.kind === 'option' && ['version', 'v', 'V'].includes(token.name))
    if (asksVersion) return { kind: 'version' }
    refuseUnknown(tokens, [...EARLY_OPTIONS, ownOption('version', 'flag', '')])
    return { kind: 'help', about: null }
  }
  if (first.value === 'help') {
    const topic = words.slice(1).map(({ value }) => value)
    return { kind: 'help', about: helpTopic(topic, commands) }
  }

  // An empty word is an argument: `redress init ''`.
  const named = second?.value ? commandNamed(`${first.value} ${second.value}`, commands) : undefined
  const single = commandNamed(first.value, commands)
  const isGroup = groups.includes(first.value)
  const taken = named !== undefined && second !== undefined ? [first, second] : [first]
  // A group without a command runs its list: `redress jobs`.
  const listed =
    isGroup && second === undefined && !asksHelp ? commandNamed(`${first.value} list`, commands) : undefined
  const command = named ?? single ?? listed
  if (command === undefined) {
    if (isGroup && second === undefined) return { kind: 'help', about: first.value }
    throw unknownCommand(first.value, second?.value, commands)
  }
  if (asksHelp) return { kind: 'help', about: command }
  const places = new Set(taken.map(({ index }) => index))
  return { kind: 'command', command, rest: argv.filter((_, index) => !places.has(index)) }
}

function helpTopic(words: readonly string[], commands: readonly Command[]): Command | string | null {
  const [first, second] = words
  if (first === undefined) return null
  const name = words.slice(0, 2).join(' ')
  const about = commandNamed(name, commands) ?? groupsOf(commands).find((group) => group === name)
  if (about !== undefined) return about
  throw unknownCommand(first, second, commands)
}

function unknownCommand(first: string, second: string | undefined, commands: readonly Command[]): RedressError {
  const isGroup = groupsOf(commands).includes(first)
  const typed = isGroup ? `${first} ${second}` : first
  const message = `There is no command "${typed}".`
  const missing = SYSTEMS.find((system) => system.commands.includes(first))
  if (missing !== undefined && !isGroup) {
    const action = `It comes with an app: run \`npm install ${missing.package}\`.`
    return new RedressError('USAGE', message, { action })
  }
  const known = isGroup
    ? commandsOf(first, commands).map(nameOf)
    : [
        ...Object.keys(ALIASES),
        'help',
        ...commands.map(({ words }) => words[0] as string),
        ...installedApps().flatMap((app) => app.commands),
      ]
  const meant = nearest(typed, known)
  const action =
    meant === null ? `See \`redress help${isGroup ? ` ${first}` : ''}\`.` : `Did you mean \`redress ${meant}\`?`
  return new RedressError('USAGE', message, { action })
}

export interface Parsed {
  /** By field. Absent options are absent. */
  values: Record<string, string | boolean>
  positionals: string[]
}

/** Reads the options and arguments of a command. */
export function readOptions(command: Command, rest: readonly string[], specs: readonly OptionSpec[]): Parsed {
  const { tokens, positionals } = parse(rest, [...specs, ...SERVER_OPTIONS])
  refuseUnknown(tokens, specs, command)
  const values: Record<string, string | boolean> = {}
  for (const token of tokens) {
    if (token.kind !== 'option') continue
    const found = specs.find(({ option }) => option === token.name) as OptionSpec
    const before = values[found.field]
    if (before !== undefined && !found.isList) throw usage(command, `--${found.option} is given twice.`)
    const value = readValue(found, token.value, token.inlineValue === true, command)
    values[found.field] = before === undefined ? value : `${before},${value}`
  }
  const most = command.positionals.length
  const needed = command.positionals.filter(({ isNeeded }) => isNeeded)
  const missing = needed[positionals.length]
  if (missing !== undefined) throw usage(command, `<${missing.name}> is missing.`)
  if (positionals.length > most) throw usage(command, `Unexpected argument "${positionals[most]}".`)
  return { values, positionals }
}

function readValue(spec: OptionSpec, value: string | undefined, isInline: boolean, command: Command): string | boolean {
  if (spec.kind === 'flag') {
    if (value === undefined) return true
    throw usage(command, `--${spec.option} takes no value.`)
  }
  // `--reason --dry-run`: the reason was forgotten. `--reason=--dry-run` is accepted.
  const isOption = value !== undefined && !isInline && /^--[a-z]/.test(value)
  if (value === undefined || value === '' || isOption) throw usage(command, `--${spec.option} needs a value.`)
  if (spec.kind === 'number' && !/^-?\d+$/.test(value)) {
    throw usage(command, `--${spec.option} must be a whole number, not "${value}".`)
  }
  if (spec.kind === 'choice' && !spec.choices.includes(value)) {
    const meant = nearest(value, spec.choices)
    const hint = meant === null ? '' : ` Did you mean "${meant}"?`
    throw usage(command, `--${spec.option} must be one of ${spec.choices.join(', ')}, not "${value}".${hint}`)
  }
  return value
}

export function usage(command: Command, message: string): RedressError {
  const action = `Usage: redress ${usageOf(command)} [options]; see \`redress ${nameOf(command)} --help\`.`
  return new RedressError('USAGE', message, { action })
}

type Tokens = ReturnType<typeof parse>['tokens']

function refuseUnknown(tokens: Tokens, specs: readonly OptionSpec[], command?: Command): void {
  for (const token of tokens) {
    if (token.kind !== 'option' || specs.some(({ option }) => option === token.name)) continue
    if (command !== undefined && SERVER_OPTIONS.some(({ option }) => option === token.name)) {
      throw new RedressError(
        'USAGE',
        `redress ${nameOf(command)} works on a store only: it has no option ${token.rawName}.`,
        {
          action: 'Run it on a machine that can reach the store, with --data or --store.',
        },
      )
    }
    const known = specs.map(({ option }) => `--${option}`)
    const meant = nearest(`--${token.name}`, known)
    const where = command === undefined ? 'redress' : `redress ${nameOf(command)}`
    const message = `${where} has no option ${token.rawName}.`
    const action = meant === null ? `See \`${where} --help\`.` : `Did you mean ${meant}?`
    throw new RedressError('USAGE', message, { action })
  }
}

/** Not strict: the errors of Node name neither the command nor the nearest option. */
function parse(argv: readonly string[], specs: readonly OptionSpec[]) {
  const options = Object.fromEntries(
    specs.map(({ option, kind }) => [option, { type: kind === 'flag' ? ('boolean' as const) : ('string' as const) }]),
  )
  const bare = new Map<string, string>(
    specs.flatMap(({ option, bare }) => (bare === undefined ? [] : [[`--${option}`, bare]])),
  )
  const args = argv.map((arg, i) => (bare.has(arg) && !isValue(argv[i + 1]) ? `${arg}=${bare.get(arg)}` : arg))
  return parseArgs({ args, options, strict: false, allowPositionals: true, tokens: true })
}

const isValue = (next: string | undefined): boolean => next !== undefined && !next.startsWith('-')
