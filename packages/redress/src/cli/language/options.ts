import type { z } from 'zod'
import * as operations from '../../operations/field-specs.ts'
import type { OptionSpec } from './parse.ts'

export function fieldsOf(input: z.ZodObject): OptionSpec[] {
  return operations.fieldsOf(input).map((spec) => ({
    ...spec,
    option: spec.field.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`),
  }))
}
