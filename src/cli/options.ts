import type { z } from 'zod'
import * as operations from '../operations/fields.ts'
import type { Command } from './commands.ts'
import type { OptionSpec } from './parse.ts'

/** The options of an operation are the fields of its input that have no place of their own. */
export function optionsOf(command: Command, input: z.ZodObject): OptionSpec[] {
  return fieldsOf(input).filter(({ field }) => !command.positionals.some(({ name }) => name === field))
}

export function fieldsOf(input: z.ZodObject): OptionSpec[] {
  return operations.fieldsOf(input).map((spec) => ({
    ...spec,
    option: spec.field.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`),
  }))
}
