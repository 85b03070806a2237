/**
 * The types of schemas that the declarations of this package name, with the meaning that zod gives them. They stand in for
 * zod's own: a program that imports redress must not compile those, which takes longer than compiling all of redress.
 */
export declare namespace z {
  namespace core {
    type $strict = unknown
    type $strip = unknown
    interface $ZodTypeInternals<Output = unknown, Input = unknown> {
      output: Output
      input: Input
      optin?: 'optional' | undefined
      optout?: 'optional' | undefined
    }
  }

  interface ZodType<Output = unknown, Input = unknown, Internals = core.$ZodTypeInternals<Output, Input>> {
    _zod: Internals
  }

  type output<Schema> = Schema extends { _zod: { output: infer Output } } ? Output : unknown
  type input<Schema> = Schema extends { _zod: { input: infer Input } } ? Input : unknown
  type infer<Schema> = output<Schema>

  type ZodString = ZodType<string, string>
  type ZodEmail = ZodType<string, string>
  type ZodNumber = ZodType<number, number>
  type ZodInt = ZodType<number, number>
  type ZodCoercedNumber<Input = unknown> = ZodType<number, Input>
  type ZodBoolean = ZodType<boolean, boolean>
  type ZodNull = ZodType<null, null>
  type ZodUnknown = ZodType
  type ZodLiteral<Value> = ZodType<Value, Value>
  type ZodEnum<Entries> = ZodType<Entries[keyof Entries], Entries[keyof Entries]>
  type ZodArray<Item> = ZodType<output<Item>[], input<Item>[]>
  type ZodNullable<Inner> = ZodType<output<Inner> | null, input<Inner> | null>
  type ZodTransform<Output, Input> = ZodType<Output, Input>
  type ZodPipe<In, Out> = ZodType<output<Out>, input<In>>
  type ZodUnion<Options extends readonly unknown[]> = ZodType<output<Options[number]>, input<Options[number]>>
  type ZodDiscriminatedUnion<Options extends readonly unknown[], _Key = string> = ZodUnion<Options>
  type ZodRecord<Key, Value> = ZodType<
    Record<output<Key> & PropertyKey, output<Value>>,
    Record<input<Key> & PropertyKey, input<Value>>
  >

  /** The key may be missing on both sides. */
  interface MayBeMissing<Output, Input> {
    _zod: { output: Output; input: Input; optin: 'optional'; optout: 'optional' }
  }
  type ZodOptional<Inner> = MayBeMissing<output<Inner> | undefined, input<Inner> | undefined>
  type ZodExactOptional<Inner> = MayBeMissing<output<Inner>, input<Inner>>

  /** The key may be missing in the input. */
  interface MayBeLeftOut<Output, Input> {
    _zod: { output: Output; input: Input; optin: 'optional' }
  }
  type ZodDefault<Inner> = MayBeLeftOut<Exclude<output<Inner>, undefined>, input<Inner> | undefined>
  type ZodPrefault<Inner> = MayBeLeftOut<output<Inner>, input<Inner> | undefined>

  type OptionalKeys<Shape, Side extends 'optin' | 'optout'> = {
    [Key in keyof Shape]: Shape[Key] extends { _zod: Record<Side, 'optional'> } ? Key : never
  }[keyof Shape]
  type Flat<T> = { [Key in keyof T]: T[Key] } & {}
  type Fields<Shape, Side extends 'optin' | 'optout', Value extends Record<keyof Shape, unknown>> = [
    keyof Shape,
  ] extends [never]
    ? Record<string, never>
    : Flat<
        { -readonly [Key in Exclude<keyof Shape, OptionalKeys<Shape, Side>>]: Value[Key] } & {
          -readonly [Key in OptionalKeys<Shape, Side>]?: Value[Key]
        }
      >
  type ZodObject<Shape = null, _Config = unknown> = Shape extends null
    ? // biome-ignore lint/suspicious/noExplicitAny: any object, as a constraint of a type parameter
      ZodType<any, any>
    : ZodType<
        Fields<Shape, 'optout', { [Key in keyof Shape]: output<Shape[Key]> }>,
        Fields<Shape, 'optin', { [Key in keyof Shape]: input<Shape[Key]> }>
      >
}
