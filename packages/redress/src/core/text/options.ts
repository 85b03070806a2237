import { RedressError } from '../errors.ts'
import { nearest } from './names.ts'

/**
 * The option names of an interface. The compiler compares the table with the interface, so a new option cannot be
 * forgotten here.
 */
export const optionNames = <Options extends object>(names: Readonly<Record<keyof Options, true>>): readonly string[] =>
  Object.freeze(Object.keys(names))

/**
 * Refuses options whose names are not known: a misspelt option would otherwise be ignored. `of` completes the sentence
 * "... has no option": `submit()`, `redress()`.
 */
export function refuseUnknownOptions(of: string, given: unknown, known: readonly string[]): void {
  if (given === undefined) return
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw new RedressError('OPTION_INVALID', `${of} takes its options as an object; got ${kindOf(given)}.`)
  }
  const unknown = unknownOption(of, given, known)
  if (unknown !== null) throw new RedressError('OPTION_INVALID', unknown.problem, { action: unknown.action })
}

/** The first option with an unknown name, in words; null when all are known. */
export function unknownOption(
  of: string,
  given: object,
  known: readonly string[],
): { problem: string; action: string } | null {
  const name = Object.keys(given).find((one) => !known.includes(one))
  if (name === undefined) return null
  const meant = nearest(name, known)
  return {
    problem: `${of} has no option ${JSON.stringify(name)}.`,
    action: meant === null ? `Use one of: ${known.join(', ')}.` : `Did you mean ${JSON.stringify(meant)}?`,
  }
}

function kindOf(value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'a list' : `a ${typeof value}`
}
