import type { OperationName } from '../../operations/catalog.ts'
import type { OutputOf } from '../../operations/table.ts'
import { commandName } from '../language/command-name.ts'
import type { Parsed } from '../language/parse.ts'
import { LISTS, NOTHING } from '../render/lists.ts'
import { RENDERERS, type Rendering } from '../render/rendering.ts'
import type { Target } from '../target/target.ts'
import { terminalOf } from './terminal.ts'

/** Data to standard output, and what is for the person beside it. */
export function printAnswer<Name extends OperationName>(
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

/** A program gets the list itself: whether it is empty must not depend on knowing what is around it. */
function itemsOf<Name extends OperationName>(name: Name, output: OutputOf<Name>): readonly unknown[] | null {
  const field = (LISTS as Partial<Record<OperationName, string>>)[name]
  return field === undefined ? null : ((output as Record<string, unknown>)[field] as unknown[])
}

/** Where a list goes on: { nextCursor: '17' }. */
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
  // A page with nothing on it need not be the last.
  const isLast = nextOf(output) === null
  if (nothing !== undefined && isEmpty && isLast) rendering.hint(nothing)
  else process.stdout.write(RENDERERS[name](output, rendering))
  // After the answer: a hint about something not yet read is in the way.
  process.stderr.write(hints.join(''))
}
