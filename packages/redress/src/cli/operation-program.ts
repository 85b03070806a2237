import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline/promises'
import type { Readable, Writable } from 'node:stream'
import type { z } from 'zod'
import { RedressError } from '../core/errors.ts'
import { durationMs } from '../core/text/duration.ts'
import type { BatchItem } from '../operations/batches/batches.ts'
import { CATALOG, type CatalogEntry, type OperationName } from '../operations/catalog.ts'
import { fieldsOf } from '../operations/field-specs.ts'
import { OPERATIONS, type OutputOf } from '../operations/table.ts'
import { FOLLOW_OPTION, followLogs } from './commands/jobs-logs.ts'
import { TIMEOUT_OPTION, waitAndTell } from './commands/jobs-wait.ts'
import { COMMANDS, type Command, commandName, nameOf } from './language/commands.ts'
import { EXAMPLES } from './language/examples.ts'
import { type OptionSpec, ownOption, type Parsed, SERVER_OPTIONS, usage } from './language/parse.ts'
import type { Program } from './programs.ts'
import { LISTS, NOTHING } from './render/lists.ts'
import { RENDERERS, type Rendering } from './render/rendering.ts'
import { isForServer, openTarget, type Target } from './target/target.ts'
import { currentUser, terminalOf } from './terminal/terminal.ts'

const APP_OPTION = ownOption('app FILE', 'text', 'module that exports your app: its schemas and hooks are then applied')
const JSONL_OPTION = ownOption('jsonl', 'flag', 'print one line of JSON per item')
const YES_OPTION = ownOption('yes', 'flag', 'do not ask for confirmation; the command cannot be undone')
const WAIT_OPTIONS = [
  ownOption('wait', 'flag', 'wait until the job has ended, as `redress jobs wait` does'),
  TIMEOUT_OPTION,
]

/** The program of a command that runs an operation: its options come from the input of the operation. */
export function programOfOperation(name: OperationName): Program {
  const fields = optionsOf(OPERATIONS[name].input)
  const command = COMMANDS.find(({ does }) => 'operation' in does && does.operation === name) as Command
  const isPlace = ({ field }: OptionSpec) => command.positionals.some((place) => place.name === field)
  return {
    options: [
      ...fields.filter((field) => !isPlace(field)).map(withActor),
      ...(name === 'jobs.submit' ? WAIT_OPTIONS : []),
      ...(name === 'jobs.logs' ? [FOLLOW_OPTION] : []),
      ...(needsConfirming(name) ? [YES_OPTION] : []),
      ...(name in LISTS ? [JSONL_OPTION] : []),
      APP_OPTION,
      ...SERVER_OPTIONS,
    ],
    places: fields.filter(isPlace).map(({ field, description, kind }) => ({
      name: field,
      description: kind === 'json' ? `${description} (JSON, @file, or - for standard input)` : description,
    })),
    examples: EXAMPLES[name] ?? [],
    run: (called, parsed) => perform(name, called, parsed, fields),
  }
}

/** `dryRun` is `--dry-run`. */
export function optionsOf(input: z.ZodObject): OptionSpec[] {
  return fieldsOf(input).map((spec) => ({
    ...spec,
    option: spec.field.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`),
  }))
}

const withActor = (spec: OptionSpec): OptionSpec => (spec.field === 'actor' ? { ...spec, fallback: 'you' } : spec)

async function perform(name: OperationName, command: Command, parsed: Parsed, fields: readonly OptionSpec[]) {
  const { values } = parsed
  if (isForServer(values) && values.actor !== undefined) {
    throw usage(command, '--actor cannot be used with a server: the server knows you by your token.')
  }
  const input = inputOf(command, parsed, fields)
  // A reason with a default is optional.
  if (fields.some(({ field, fallback }) => field === 'reason' && fallback === null) && values.reason === undefined) {
    throw new RedressError('REASON_REQUIRED', 'A reason is required.', {
      action: `Add --reason 'why you do this'. It is recorded in the history.`,
    })
  }
  const timeoutMs = typeof values.timeout === 'string' ? durationMs(values.timeout, '--timeout') : null
  const isToConfirm = needsConfirming(name) && values.yes !== true && values.dryRun !== true
  if (isToConfirm && !canAsk(values)) throw refuseUnasked(nameOf(command))
  const target = await openTarget(values, { app: values.app as string | undefined })
  try {
    if (name === 'jobs.logs' && values.follow === true) {
      const { id, ...rest } = input as { id: string }
      return await followLogs(target, id, { input: rest, isJson: values.json === true || values.jsonl === true })
    }
    if (isToConfirm) await confirmed(target, name, input)
    const output = await target.perform(name, input)
    if (name === 'jobs.submit' && values.wait === true) {
      const { job, did } = output as OutputOf<'jobs.submit'>
      if (job !== null) {
        if (values.json !== true) process.stderr.write(`${did}\n`)
        return await waitAndTell(target, job.id, { timeoutMs, isJson: values.json === true })
      }
    }
    printAnswer(name, output, target, values)
    if (CATALOG[name].mutates && values.dryRun !== true) refuseIfIncomplete(output)
  } finally {
    await target.stop()
  }
  return 0
}

/** Called after the answer was printed: the exit code must tell a script that only 3 of 5 were done. */
function refuseIfIncomplete(output: object): void {
  const items = 'items' in output && Array.isArray(output.items) ? (output.items as BatchItem[]) : []
  const refused = items.flatMap(({ code, did }) => (code === null ? [] : [{ code, did }]))
  const [first] = refused
  if (first === undefined) return
  const count = `${refused.length} of ${items.length}`
  if (refused.length < items.length) throw new RedressError('PARTLY_DONE', `${count} jobs were refused.`)
  throw new RedressError(first.code, `Nothing was done. ${first.did}`)
}

// ---- input ---------------------------------------------------------------------------------------------------------

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
    throw new RedressError('USAGE', `Cannot read ${path}.`, { cause: error, action: 'Check the path after @.' })
  }
}

// ---- confirmation --------------------------------------------------------------------------------------------------

const needsConfirming = (name: OperationName): boolean => (CATALOG[name] as CatalogEntry).needsConfirmation === true

/** A person must be able to read and answer the question. */
const canAsk = ({ json }: Parsed['values']): boolean =>
  process.stdin.isTTY === true && process.stderr.isTTY === true && json !== true

const refuseUnasked = (command: string): RedressError =>
  new RedressError(
    'CONFIRMATION_REQUIRED',
    `redress ${command} cannot be undone and needs confirmation, but this is not a terminal.`,
  )

/** A dry run of the operation says what would be done, so the question is exact. */
async function confirmed(target: Target, name: OperationName, input: object): Promise<void> {
  const { did } = (await target.perform(name, { ...input, dryRun: true })) as { did: string }
  await ask(`${did.replace(/^Nothing was done\. /, '')}\nThis cannot be undone. Continue?`)
}

interface Streams {
  input: Readable
  output: Writable
}

const TERMINAL: Streams = { input: process.stdin, output: process.stderr }

/** No answer means no. */
export async function ask(question: string, { input, output }: Streams = TERMINAL): Promise<void> {
  const lines = createInterface({ input, output })
  const closed = new Promise<string>((resolve) => lines.once('close', () => resolve('')))
  const answer = await Promise.race([lines.question(`${question} [y/N] `), closed])
  lines.close()
  if (/^y(es)?$/i.test(answer.trim())) return
  throw new RedressError('CONFIRMATION_REQUIRED', 'Nothing was done: the confirmation is missing.', {
    action: 'Answer y, or add --yes.',
  })
}

// ---- answer --------------------------------------------------------------------------------------------------------

/** Data goes to standard output, hints for people go to standard error. */
function printAnswer<Name extends OperationName>(
  name: Name,
  output: OutputOf<Name>,
  target: Pick<Target, 'flags' | 'server'>,
  { json, jsonl }: Parsed['values'],
): void {
  if (json === true || jsonl === true) printJson(name, output, jsonl === true)
  else printForPeople(name, output, target)
}

function printJson<Name extends OperationName>(name: Name, output: OutputOf<Name>, isLines: boolean): void {
  const items = itemsOf(name, output)
  if (items === null) process.stdout.write(`${JSON.stringify(output, null, 2)}\n`)
  else if (isLines) process.stdout.write(items.map((item) => `${JSON.stringify(item)}\n`).join(''))
  else process.stdout.write(`${JSON.stringify(items, null, 2)}\n`)
  const more = items === null ? null : nextOf(output)
  if (more !== null) process.stderr.write(`${JSON.stringify(more)}\n`)
}

/** With --json a list is a bare array, so that scripts can test whether it is empty. */
function itemsOf<Name extends OperationName>(name: Name, output: OutputOf<Name>): readonly unknown[] | null {
  const field = (LISTS as Partial<Record<OperationName, string>>)[name]
  return field === undefined ? null : ((output as Record<string, unknown>)[field] as unknown[])
}

/** The next page of a list: { nextCursor: '17' }. */
function nextOf(output: object): object | null {
  const found = Object.entries(output).find(([field, value]) => /^next[A-Z]/.test(field) && value !== null)
  return found === undefined ? null : Object.fromEntries([found])
}

function printForPeople<Name extends OperationName>(
  name: Name,
  output: OutputOf<Name>,
  { flags, server }: Pick<Target, 'flags' | 'server'>,
): void {
  const hints: string[] = []
  const rendering: Rendering = {
    terminal: terminalOf(process.stdout, process.env, Date.now()),
    command: (...words) => `${commandName()} ${words.join(' ')}${flags}`,
    server,
    hint: (text) => void hints.push(`${text}\n`),
  }
  const nothing = NOTHING[name]
  const isEmpty = Object.values(output).some((value) => Array.isArray(value) && value.length === 0)
  // An empty page is not always the last.
  const isLast = nextOf(output) === null
  if (nothing !== undefined && isEmpty && isLast) rendering.hint(nothing)
  else process.stdout.write(RENDERERS[name](output, rendering))
  // Hints come after the answer that they are about.
  process.stderr.write(hints.join(''))
}
