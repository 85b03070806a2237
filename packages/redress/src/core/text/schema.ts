/** The part of the Standard Schema interface (standardschema.dev) that we use: zod, valibot, arktype and others have it. */
export interface Schema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => Checked<Output> | Promise<Checked<Output>>
    readonly types?: { readonly input: Input; readonly output: Output } | undefined
  }
}

type Checked<Output> = { readonly value: Output; readonly issues?: undefined } | { readonly issues: readonly Issue[] }

interface Issue {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}

/** One line per problem: `pages.0.title: expected a string`. */
export function problemsOf(issues: readonly Issue[]): string[] {
  return issues.map(({ message, path }) => {
    const at = (path ?? []).map((part) => String(typeof part === 'object' ? part.key : part)).join('.')
    return at === '' ? message : `${at}: ${message}`
  })
}

/** A schema that accepts everything: types without a schema library, for the `input` and `output` of a job type. */
export function typed<T>(): Schema<T> {
  return { '~standard': { version: 1, vendor: 'redress', validate: (value) => ({ value: value as T }) } }
}
