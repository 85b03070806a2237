/**
 * The process that reads PDFs. It has no environment, can read only its code and its own folder, and has no network
 * if the machine supports that. It is killed when it takes too long or too much memory, so a hostile document harms
 * nothing else.
 */
import type { ParseOrder, ParserSays } from './messages.ts'
import { convert } from './pdf/convert.ts'
import { unreadable } from './pdf/open.ts'

const say = (message: ParserSays): void => {
  process.send?.(message)
}

async function parse(order: ParseOrder): Promise<ParserSays> {
  try {
    return { kind: 'done', pages: await convert(order) }
  } catch (error) {
    const { code, message, cause } = unreadable(error)
    return { kind: 'refused', code, message, ...(cause instanceof Error && { detail: cause.message }) }
  }
}

process.on('disconnect', () => process.exit())
process.on('message', (order: ParseOrder) => {
  void parse(order).then(say)
})
say({ kind: 'ready' })
