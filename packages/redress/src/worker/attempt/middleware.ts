import type { Attempt } from './attempt.ts'

declare const ADDED: unique symbol

/** The output of the handler, as a middleware passes it on. Its type carries the locals that the middleware added. */
interface Passed<Added extends object> {
  readonly [ADDED]: Added
}

/** Runs the rest: the next middleware, or the handler. `added` becomes part of `attempt.locals`. */
export type Next = <Added extends object = object>(added?: Added) => Promise<Passed<Added>>

/**
 * A function around the handlers of an app. `Locals` is what earlier middleware added, `Added` what this one adds.
 * Only needed where a middleware is written apart from `app.use`, which infers both.
 */
export type Middleware<Added extends object = object, Locals extends object = object> = (
  attempt: Attempt<string, Locals>,
  next: object extends Added ? Next : (added: Added) => Promise<Passed<Added>>,
) => Promise<unknown>

/** The locals that a middleware adds, read from what it returns. */
export type AddedBy<Returned> = [Extract<Awaited<Returned>, Passed<object>>] extends [never]
  ? object
  : Awaited<Returned> extends infer Each
    ? Each extends Passed<infer Added>
      ? Added
      : never
    : never

// biome-ignore lint/suspicious/noExplicitAny: each middleware knows its own locals
export type AnyMiddleware = (attempt: Attempt<any, any>, next: any) => unknown
