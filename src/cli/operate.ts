import { readFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { redress } from '../app/app.ts'
import { RedressError } from '../core/errors.ts'
import type { OperationName } from '../operations/catalog.ts'
import { type InputOf, OPERATIONS, type OutputOf } from '../operations/table.ts'
import { commandName } from './command-name.ts'
import { COMMANDS, type Command } from './commands.ts'
import type { Program } from './invoke.ts'
import { fieldsOf } from './options.ts'
import { type OptionSpec, ownOption, type Parsed, usage } from './parse.ts'
import { NOTHING, RENDERERS, type Rendering } from './render/rendering.ts'
import { chooseStore, refuseMissingStore } from './store-option.ts'
import { terminalOf } from './terminal.ts'

const APP_OPTION = ownOption(
  'app FILE',
  'text',
  'a module that exports your app: its schemas and hooks are then asked, too',
)

/** A command made from the table of operations: options from its input, rendering from its name. */
export function programOfOperation(name: OperationName): Program {
  const fields = fieldsOf(OPERATIONS[name].input)
  const command = COMMANDS.find(({ does }) => 'operation' in does && does.operation === name) as Command
  const isPlace = ({ field }: OptionSpec) => command.positionals.some((place) => place.name === field)
  return {
    options: [...fields.filter((field) => !isPlace(field)).map(withActor), APP_OPTION],
    places: fields.filter(isPlace).map(({ field, description, kind }) => ({
      name: field,
      description: kind === 'json' ? `${description} (JSON, @file, or - for standard input)` : description,
    })),
    examples: EXAMPLES[name] ?? [],
    run: (called, parsed) => operate(name, called, parsed, fields),
  }
}

async function operate(name: OperationName, command: Command, parsed: Parsed, fields: readonly OptionSpec[]) {
  const { values } = parsed
  const choice = chooseStore(values)
  const { location, flags } = choice
  const input = inputOf(command, parsed, fields)
  if (fields.some(({ field }) => field === 'reason') && values.reason === undefined) {
    throw new RedressError('REASON_REQUIRED', 'No reason is given.', {
      action: `Add --reason 'why you do this': it is kept in the history.`,
    })
  }
  refuseMissingStore(location)
  const app =
    values.app === undefined
      ? redress({ store: location })
      : await (await import('./load-app.ts')).loadApp(String(values.app), choice)
  try {
    const output = await app.perform(name, input as InputOf<OperationName>)
    if (values.json === true) process.stdout.write(`${JSON.stringify(output, null, 2)}\n`)
    else print(name, output, flags)
  } finally {
    await app.stop()
  }
}

function inputOf(command: Command, { values, positionals }: Parsed, fields: readonly OptionSpec[]): object {
  const placed = command.positionals.flatMap(({ name }, i) => {
    const value = positionals[i]
    return value === undefined ? [] : [[name, value]]
  })
  const optional = Object.entries(values).filter(([field]) => fields.some((known) => known.field === field))
  const given = Object.fromEntries([...placed, ...optional]) as Record<string, string | boolean>
  const read = Object.entries(given).map(([field, value]) => {
    const isJson = fields.find((known) => known.field === field)?.kind === 'json'
    return [field, isJson ? readJson(command, field, String(value)) : value]
  })
  const actor = fields.some(({ field }) => field === 'actor') ? { actor: currentUser() } : {}
  return { ...actor, ...Object.fromEntries(read) }
}

function readJson(command: Command, field: string, text: string): unknown {
  const source = text === '-' ? readFileSync(0, 'utf8') : text.startsWith('@') ? readInputFile(text.slice(1)) : text
  try {
    return JSON.parse(source)
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error)
    const hint = text === source ? ` Quote it for the shell: '{"file":"a.pdf"}'.` : ''
    throw usage(command, `${field} is not JSON: ${problem}.${hint}`)
  }
}

function readInputFile(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new RedressError('USAGE', `${path} cannot be read.`, { cause: error, action: 'Check the path after @.' })
  }
}

function print<Name extends OperationName>(name: Name, output: OutputOf<Name>, flags: string): void {
  const hints: string[] = []
  const rendering: Rendering = {
    terminal: terminalOf(process.stdout, process.env, Date.now()),
    command: (...words) => `${commandName()} ${words.join(' ')}${flags}`,
    hint: (text) => void hints.push(`${text}\n`),
  }
  const nothing = NOTHING[name]
  if (nothing !== undefined && Object.values(output).some((value) => Array.isArray(value) && value.length === 0)) {
    rendering.hint(nothing)
  } else process.stdout.write(RENDERERS[name](output, rendering))
  // After the answer: a hint about something not yet read is in the way.
  process.stderr.write(hints.join(''))
}

function currentUser(): string {
  try {
    return process.env.USER || userInfo().username
  } catch {
    // A container may run as a number that has no name.
    return ''
  }
}

const withActor = (spec: OptionSpec): OptionSpec => (spec.field === 'actor' ? { ...spec, fallback: 'you' } : spec)

const EXAMPLES: Partial<Record<OperationName, readonly string[]>> = {
  'jobs.submit': [
    `redress submit sample.convert '{"file":"a.pdf","gateway":"down"}'`,
    'redress submit sample.convert @input.json --owner ann --delay 5m',
  ],
  'jobs.list': ['redress jobs list --status failed', 'redress jobs list --type sample.convert --json'],
  'jobs.retry': [
    `redress retry JOB --reason 'the gateway is back'`,
    `redress retry JOB --reason 'disk was full' --input '{"file":"a.pdf"}'`,
  ],
  'schedules.pause': [`redress schedules pause nightly --reason 'the ledger is being moved'`],
  'schedules.trigger': [`redress schedules trigger nightly --reason 'the run of last night was incomplete'`],
  'dead-letters.list': [
    'redress dead-letters list --type sample.convert --since 2h',
    'redress dead-letters list --replayed no --json',
  ],
  'dead-letters.replay': [
    `redress dead-letters replay 17 --reason 'the gateway is back'`,
    `redress dead-letters replay 17 --reason 'wrong file' --input '{"file":"b.pdf"}'`,
  ],
  'dead-letters.replay-matching': [
    `redress dead-letters replay-matching --code GW_5XX --rate 5/s --canary 10 --reason 'the gateway is back'`,
  ],
  'dead-letters.purge': [
    `redress dead-letters purge --until 90d --replayed yes --dry-run --reason 'old and done'`,
    `redress dead-letters purge 17 --reason 'a test of ours'`,
  ],
  'replays.plan': [
    `redress replays plan --code GW_5XX --since 2h --reason 'the gateway is back'`,
    `redress replays plan --type sample.convert --patch '{"gateway":"up"}' --canary 10 --rate 90/m --reason 'moved'`,
  ],
  'batches.list': ['redress batches list --state partial', 'redress batches list --owner ann --json'],
  'batches.retry-failed': [`redress batches retry BATCH --reason 'the gateway is back'`],
  'jobs.mark-failed': [`redress jobs mark-failed JOB --reason 'its machine is gone for good'`],
}
