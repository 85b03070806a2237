import { z } from 'zod'

/** A type without what a schema cannot say: `readonly`, and that a field may be there and undefined. */
type Plain<T> = unknown extends T
  ? unknown
  : T extends readonly (infer Item)[]
    ? Plain<Item>[]
    : T extends object
      ? { -readonly [Key in keyof T]: Plain<Exclude<T[Key], undefined>> }
      : T

type Same<A, B> =
  (<Any>() => Any extends Plain<A> ? 1 : 2) extends <Any>() => Any extends Plain<B> ? 1 : 2 ? true : false

/**
 * The schema of a type: `exactly<JobView>()(z.strictObject({ ... }))` compiles only as long as both say the same. The
 * type stays the source, and the schema is what programs are told of it.
 */
export const exactly =
  <T>() =>
  <S extends z.ZodType>(
    schema: S & (Same<z.output<S>, T> extends true ? unknown : 'the schema and the type differ'),
  ): z.ZodType<T> =>
    schema as unknown as z.ZodType<T>

export const text = z.string()
export const name = z.string()
export const id = z.string()
export const time = z.string().describe('ISO 8601, in UTC')
export const timeOrNull = time.nullable()
export const count = z.int().min(0)
export const number = z.number()
export const yes = z.boolean()
export const anything = z.unknown()
export const by = z.strictObject({ actor: text, reason: text })

/** Of every act. */
export const done = {
  isDone: z.boolean(),
  did: z.string().describe('one sentence: what was done, or with dryRun what would be'),
}
export const nextCursor = z.string().nullable().describe('give it as cursor to go on; null when nothing is left')
