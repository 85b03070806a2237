import type { LetterList, LetterView } from './dead-letters.ts'
import { delimitedTask } from './task.ts'

export const EXPORT_FORMATS = ['jsonl', 'protobuf'] as const
export type ExportFormat = (typeof EXPORT_FORMATS)[number]

/** Of the list, what makes a page of it: an export gives all. */
export const OF_A_PAGE: readonly string[] = ['order', 'after', 'limit']

/** A letter holds a whole input, which may be a megabyte: few at a time. */
const LETTERS_PER_PAGE = 50

/** Asks for one page of `dead-letters.list`. */
type ListPage = (input: Readonly<Record<string, unknown>>) => Promise<LetterList>

/**
 * All letters that the filter of `dead-letters.list` names, the oldest first, a page at a time. By that operation and
 * nothing else: whoever may not list letters may not export them.
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

const asMessage = (letter: LetterView): Uint8Array => delimitedTask(letter, Date.parse(letter.at))

const asLine = (letter: LetterView): Uint8Array => Buffer.from(`${JSON.stringify(letter)}\n`)
