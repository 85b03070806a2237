import { RedressError } from '../core/errors.ts'
import { CATALOG, type OperationName } from '../operations/catalog.ts'
import type { InputOf, OutputOf } from '../operations/table.ts'
import type { ActorAndReason } from '../store/contract/store.ts'
import type { AppHost } from './host.ts'

/**
 * The operations of one subject as methods: `app.deadLetters.replay(17, { actor, reason })` performs
 * 'dead-letters.replay'. The first argument is the field that the route has in its path; the others are an object.
 * Where there is a `show`, there is also a `find`, which answers null instead of throwing for what does not exist.
 */
export type Operations<Subject extends string> = {
  [Name in NameOf<Subject> as Method<Name, Subject>]: Call<Name>
} & (`${Subject}.show` extends OperationName ? { find: Find<`${Subject}.show`> } : unknown)

type NameOf<Subject extends string> = Extract<OperationName, `${Subject}.${string}`>
type Method<Name extends string, Subject extends string> = Name extends `${Subject}.${infer Act}` ? Camel<Act> : never
type Camel<Text extends string> = Text extends `${infer Head}-${infer Tail}`
  ? `${Head}${Capitalize<Camel<Tail>>}`
  : Text

type KeyOf<Name extends OperationName> = (typeof CATALOG)[Name]['http'] extends `${string}:${infer Rest}`
  ? Rest extends `${infer Field}/${string}`
    ? Field
    : Rest
  : never

/** A change needs an actor and a reason; the audit trail keeps both. */
type Given<Name extends OperationName> =
  InputOf<Name> extends { actor?: unknown; reason?: unknown } ? InputOf<Name> & ActorAndReason : InputOf<Name>

type Call<Name extends OperationName> = [KeyOf<Name>] extends [never]
  ? (...fields: Fields<Given<Name>>) => Promise<OutputOf<Name>>
  : (key: Key<Name>, ...fields: Fields<Omit<Given<Name>, KeyOf<Name>>>) => Promise<OutputOf<Name>>
type Key<Name extends OperationName> = InputOf<Name>[KeyOf<Name> & keyof InputOf<Name>]
/** An operation without fields takes none. */
type Fields<Input> =
  Input extends Record<string, never> ? [] : Record<never, never> extends Input ? [fields?: Input] : [fields: Input]
type Find<Name extends OperationName> = (
  ...given: Parameters<Call<Name>>
) => Promise<Awaited<ReturnType<Call<Name>>> | null>

export function operationsOf<Subject extends string>(
  subject: Subject,
  host: Pick<AppHost, 'perform'>,
): Operations<Subject> {
  const perform = (name: OperationName, input: object): Promise<unknown> => host.perform(name, input as never)
  const methods: Record<string, (...given: never[]) => Promise<unknown>> = {}
  for (const name of Object.keys(CATALOG) as OperationName[]) {
    const [of, act = ''] = name.split('.')
    if (of !== subject) continue
    const [, key] = /:([a-zA-Z]+)/.exec(CATALOG[name].http) ?? []
    const method = act.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase())
    methods[method] =
      key === undefined
        ? (fields: object = {}) => perform(name, fields)
        : (value: unknown, fields: object = {}) => perform(name, { ...fields, [key]: value })
  }
  const { show } = methods
  if (show !== undefined) methods.find = (...given) => show(...given).catch(nullIfMissing)
  return methods as Operations<Subject>
}

function nullIfMissing(error: unknown): null {
  if (error instanceof RedressError && error.httpStatus === 404) return null
  throw error
}
