import { readFileSync } from 'node:fs'
import { RedressError } from '../core/errors.ts'
import { durationMs } from '../core/text/duration.ts'
import { CATALOG, type CatalogEntry, type OperationName } from '../operations/catalog.ts'
import { OPERATIONS, type OutputOf } from '../operations/table.ts'
import { TIMEOUT_OPTION, waitAndTell } from './commands/jobs-wait.ts'
import type { Program } from './invoke.ts'
import { COMMANDS, type Command, nameOf } from './language/commands.ts'
import { EXAMPLES } from './language/examples.ts'
import { fieldsOf } from './language/options.ts'
import { type OptionSpec, ownOption, type Parsed, SERVER_OPTIONS, usage } from './language/parse.ts'
import { LISTS } from './render/lists.ts'
import { isForServer, openTarget, type Target } from './target/target.ts'
import { ask, canAsk, refuseUnasked, YES_OPTION } from './terminal/confirm.ts'
import { currentUser } from './terminal/current-user.ts'
import { refusePartly } from './terminal/partly.ts'
import { printAnswer } from './terminal/print.ts'

const APP_OPTION = ownOption(
  'app FILE',
  'text',
  'a module that exports your app: its schemas and hooks are then asked, too',
)
const JSONL_OPTION = ownOption('jsonl', 'flag', 'one line of JSON for each item')
const WAIT_OPTIONS = [
  ownOption('wait', 'flag', 'wait until the job has ended, and answer as `redress jobs wait` does'),
  TIMEOUT_OPTION,
]

/** A command made from the table of operations: options from its input, rendering from its name. */
export function programOfOperation(name: OperationName): Program {
  const fields = fieldsOf(OPERATIONS[name].input)
  const command = COMMANDS.find(({ does }) => 'operation' in does && does.operation === name) as Command
  const isPlace = ({ field }: OptionSpec) => command.positionals.some((place) => place.name === field)
  return {
    options: [
      ...fields.filter((field) => !isPlace(field)).map(withActor),
      ...(name === 'jobs.submit' ? WAIT_OPTIONS : []),
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
    run: (called, parsed) => operate(name, called, parsed, fields),
  }
}

async function operate(name: OperationName, command: Command, parsed: Parsed, fields: readonly OptionSpec[]) {
  const { values } = parsed
  if (isForServer(values) && values.actor !== undefined) {
    throw usage(command, '--actor is for the store itself: a server knows who you are by your token.')
  }
  const input = inputOf(command, parsed, fields)
  // Where one may be left out, the field says what is kept instead.
  if (fields.some(({ field, fallback }) => field === 'reason' && fallback === null) && values.reason === undefined) {
    throw new RedressError('REASON_REQUIRED', 'No reason is given.', {
      action: `Add --reason 'why you do this': it is kept in the history.`,
    })
  }
  const timeoutMs = typeof values.timeout === 'string' ? durationMs(values.timeout, '--timeout') : null
  const isToConfirm = needsConfirming(name) && values.yes !== true && values.dryRun !== true
  if (isToConfirm && !canAsk(values)) throw refuseUnasked(nameOf(command))
  const target = await openTarget(values, { app: values.app as string | undefined })
  try {
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
    if (CATALOG[name].mutates && values.dryRun !== true) refusePartly(output)
  } finally {
    await target.stop()
  }
  return 0
}

const needsConfirming = (name: OperationName): boolean => (CATALOG[name] as CatalogEntry).confirms === true

/** What would be done is said by the operation itself, so that the question is about what it is about. */
async function confirmed(target: Target, name: OperationName, input: object): Promise<void> {
  const { did } = (await target.perform(name, { ...input, dryRun: true })) as { did: string }
  await ask(`${did.replace(/^Nothing was done\. /, '')}\nThis cannot be undone. Do it?`)
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

const withActor = (spec: OptionSpec): OptionSpec => (spec.field === 'actor' ? { ...spec, fallback: 'you' } : spec)
