import { RedressError } from '../core/errors.ts'
import { problemsOf, type Schema } from '../core/schema.ts'

/** Checks a value against a job type's schema; answers at once where the schema does, for the hot path's sake. */
export function readInput(type: string, schema: Schema | undefined, value: unknown): unknown {
  if (schema === undefined) return value
  const checked = schema['~standard'].validate(value)
  return checked instanceof Promise
    ? checked.then((answer) => acceptedValue(type, answer))
    : acceptedValue(type, checked)
}

function acceptedValue(type: string, checked: Awaited<ReturnType<Schema['~standard']['validate']>>): unknown {
  if (checked.issues === undefined) return checked.value
  throw new RedressError('INPUT_INVALID', `The input does not fit ${type}.`, { problems: problemsOf(checked.issues) })
}

/** Payloads are kept as JSON text of bounded size. */
export function packPayload(type: string, value: unknown, bytesMax: number): string {
  let text: string | undefined
  try {
    text = JSON.stringify(value)
  } catch (error) {
    throw new RedressError('PAYLOAD_NOT_JSON', `The input of ${type} cannot be written as JSON.`, { cause: error })
  }
  if (text === undefined) {
    throw new RedressError('PAYLOAD_NOT_JSON', `The input of ${type} is ${typeof value}, which JSON cannot hold.`)
  }
  // At most three bytes per UTF-16 unit: only a long text has to be measured.
  if (text.length * 3 > bytesMax && Buffer.byteLength(text) > bytesMax) {
    const bytes = Buffer.byteLength(text)
    throw new RedressError(
      'PAYLOAD_TOO_LARGE',
      `The input of ${type} has ${bytes} bytes; at most ${bytesMax} are taken.`,
    )
  }
  return text
}
