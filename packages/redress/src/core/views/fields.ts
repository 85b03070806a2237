import { z } from 'zod'
import { STATUSES } from '../job/states.ts'

/** Building blocks for the schemas of answers. A type is inferred from its schema, so that each shape is written once. */
export const text = z.string()
export const name = z.string()
export const id = z.string()
export const time = z.string().describe('ISO 8601, in UTC')
export const timeOrNull = time.nullable()
export const count = z.int().min(0)
export const number = z.number()
export const flag = z.boolean()
export const anything = z.unknown()
export const status = z.enum(STATUSES)
export const by = z.strictObject({ actor: text, reason: text })
export const nextCursor = z.string().nullable().describe('give it as cursor to go on; null when nothing is left')

/** An array that its readers do not change. Unlike `z.array(item).readonly()`, it leaves no mark in the JSON schema. */
export const listOf = <Item extends z.ZodType>(item: Item): z.ZodType<readonly z.infer<Item>[]> => z.array(item)

/** Fields of every answer to a change. */
export const done = {
  isDone: z.boolean(),
  did: z.string().describe('one sentence: what was done, or with dryRun what would be'),
}

export type DeepReadonly<T> = T extends object ? { readonly [Field in keyof T]: DeepReadonly<T[Field]> } : T
