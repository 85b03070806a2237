import { type ErrorCode, RedressError } from '../../core/errors.ts'

/** An act on many: each has its own outcome, and a code where it was refused. */
interface Item {
  isDone: boolean
  did: string
  code: ErrorCode | null
}

/** After the answer was printed: a script must not take 3 of 5 for done. Where nothing was done, the refusal says why. */
export function refusePartly(output: object): void {
  const items = 'items' in output && Array.isArray(output.items) ? (output.items as Item[]) : []
  const refused = items.filter(({ code }) => typeof code === 'string')
  const [first] = refused
  if (first === undefined) return
  const count = `${refused.length} of ${items.length}`
  if (refused.length < items.length) throw new RedressError('PARTLY_DONE', `${count} were not done.`)
  throw new RedressError(first.code as ErrorCode, `Nothing was done. ${first.did}`)
}
