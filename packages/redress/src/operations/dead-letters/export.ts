import { clip } from '../../core/text/redact.ts'
import type { LetterList, LetterView } from './dead-letters.ts'

export const EXPORT_FORMATS = ['jsonl', 'protobuf'] as const
export type ExportFormat = (typeof EXPORT_FORMATS)[number]

/** Fields of the list that an export does not have, because it is not paged. */
export const OF_A_PAGE: readonly string[] = ['order', 'after', 'limit']

/** A letter holds a whole input, which may be a megabyte: few at a time. */
const LETTERS_PER_PAGE = 50

/** Asks for one page of `dead-letters.list`. */
type ListPage = (input: Readonly<Record<string, unknown>>) => Promise<LetterList>

/**
 * All letters that the filter of `dead-letters.list` names, the oldest first, a page at a time. By that operation and
 * nothing else, so a caller that may not list letters cannot export them.
 */
export async function* exportedLetters(
  list: ListPage,
  filter: Readonly<Record<string, unknown>>,
  format: ExportFormat,
): AsyncGenerator<Uint8Array> {
  const encode = format === 'jsonl' ? asLine : asMessage
  for (let after: number | null = 0; after !== null; ) {
    const page: LetterList = await list({ ...filter, order: 'oldest', after, limit: LETTERS_PER_PAGE })
    for (const letter of page.deadLetters) yield encode(letter)
    after = page.nextAfter
  }
}

const asLine = (letter: LetterView): Uint8Array => Buffer.from(`${JSON.stringify(letter)}\n`)

// ---- protobuf ------------------------------------------------------------------------------------------------------

const VARINT = 0
const BYTES = 2
const VALUE_CHARS_MAX = 2_000

const encoder = new TextEncoder()

/**
 * A `DeadLetterTask` of proto/dead_letter_task.proto (F15, F16) with its length before it. The message has few fields, so
 * it is encoded by hand; a test decodes it with the published schema.
 */
function asMessage(letter: LetterView): Uint8Array {
  const message = new Message()
  message.bytes(1, taskOf(letter))
  message.text(2, letter.failure.code)
  message.text(3, letter.failure.message)
  message.number(4, letter.attempts)
  message.number(5, Date.parse(letter.at))
  for (const [key, value] of Object.entries(metadataOf(letter))) {
    const entry = new Message()
    entry.text(1, key)
    entry.text(2, value)
    message.bytes(6, entry.finish())
  }
  message.number(7, letter.offset)
  const bytes = message.finish()
  const framed = new Message()
  framed.varint(bytes.byteLength)
  framed.raw(bytes)
  return framed.finish()
}

function taskOf({ jobId, type, queue, owner, batchId, input }: LetterView): Uint8Array {
  const task = new Message()
  task.text(1, jobId)
  task.text(2, type)
  task.text(3, queue)
  task.text(4, owner ?? '')
  task.text(5, batchId ?? '')
  task.bytes(6, encoder.encode(JSON.stringify(input)))
  return task.finish()
}

function metadataOf({ failure }: LetterView): Record<string, string> {
  const { fault, phase, rule, fingerprint, worker, decision, context } = failure
  const facts = { fault, phase, rule, because: decision.because, fingerprint, worker: worker ?? '' }
  const said = Object.entries(context).map(([name, value]) => [`context.${name}`, asText(value)] as const)
  return Object.fromEntries([...Object.entries(facts).filter(([, value]) => value !== ''), ...said])
}

const asText = (value: unknown): string =>
  clip(typeof value === 'string' ? value : JSON.stringify(value), VALUE_CHARS_MAX)

/** The few forms of the wire format that the message needs. A value that is the default is left out, as in proto3. */
class Message {
  readonly #parts: Uint8Array[] = []

  text(field: number, value: string): void {
    this.bytes(field, encoder.encode(value.toWellFormed()))
  }

  bytes(field: number, value: Uint8Array): void {
    if (value.byteLength === 0) return
    this.varint(field * 8 + BYTES)
    this.varint(value.byteLength)
    this.raw(value)
  }

  /** Not negative, and no more than a number holds exactly. */
  number(field: number, value: number): void {
    if (value === 0) return
    this.varint(field * 8 + VARINT)
    this.varint(value)
  }

  /** Seven bits at a time, the lowest first. By division: shifts end at 32 bits, and times have more. */
  varint(value: number): void {
    const bytes: number[] = []
    let rest = value
    for (; rest > 0x7f; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) + 0x80)
    bytes.push(rest)
    this.raw(Uint8Array.from(bytes))
  }

  raw(bytes: Uint8Array): void {
    this.#parts.push(bytes)
  }

  finish(): Uint8Array {
    const whole = new Uint8Array(this.#parts.reduce((sum, { byteLength }) => sum + byteLength, 0))
    let at = 0
    for (const part of this.#parts) {
      whole.set(part, at)
      at += part.byteLength
    }
    return whole
  }
}
