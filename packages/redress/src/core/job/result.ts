import { packOutput } from '../text/json-value.ts'

/** The handler's output cannot be kept. */
export class ResultInvalid extends Error {
  override readonly name = 'ResultInvalid'
}

/** Results are kept as JSON; `undefined` is no result. */
export function packResult(output: unknown, bytesMax: number): string | null {
  if (output === undefined) return null
  const packed = packOutput(output, bytesMax)
  if ('text' in packed) return packed.text
  throw new ResultInvalid(`The handler finished; its result could not be kept: it ${packed.problem}`)
}
