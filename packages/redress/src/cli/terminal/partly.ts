import { RedressError } from '../../core/errors.ts'
import type { BatchItem } from '../../operations/batches/batches.ts'

/** After the answer was printed: a script must not take 3 of 5 for done. Where nothing was done, the refusal says why. */
export function refusePartly(output: object): void {
  const items = 'items' in output && Array.isArray(output.items) ? (output.items as BatchItem[]) : []
  const refused = items.flatMap(({ code, did }) => (code === null ? [] : [{ code, did }]))
  const [first] = refused
  if (first === undefined) return
  const count = `${refused.length} of ${items.length}`
  if (refused.length < items.length) throw new RedressError('PARTLY_DONE', `${count} were not done.`)
  throw new RedressError(first.code, `Nothing was done. ${first.did}`)
}
