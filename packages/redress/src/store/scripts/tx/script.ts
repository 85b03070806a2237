/**
 * A transaction is written once, as a script: a generator function that does not know whether its driver answers at once
 * (SQLite) or after a round trip (PostgreSQL).
 *
 *     pauseQueue: ({ name, by }) =>
 *       write('pausing a queue', function* (tx, nowMs) {
 *         const row = yield* tx.get<{ paused_at: number }>`SELECT paused_at FROM queues WHERE name = ${name}`
 *         if (row !== undefined) return 'already'
 *         yield* tx.run`INSERT INTO queues (name, paused_at) VALUES (${name}, ${nowMs})`
 *         yield* history.audit(tx, by, { atMs: nowMs, act: 'queues.pause', target: 'queue', ids: [name] })
 *         return 'paused'
 *       }, { alone: 'queues' })
 *
 * - `tx.all`, `tx.get` and `tx.run` take a template; each `${}` is a bound value or a part made with the tag `sql`. `run`
 *   answers with the number of changed rows. Write the columns out: a row has the same names and types on both.
 * - Every call inside a script is `yield*`: a statement, another script, a method of `history` or `types`.
 * - `tx.together(a, b)` sends independent statements at once. SQLite runs them in order.
 * - `tx.dialect` holds what differs: lists of values (`IN`), tables of values (`unnest`), row locks, `greatest`. For
 *   anything else use `dialect.choose({ sqlite, postgres })`.
 * - `alone: name` lets no second transaction of that name run. `tx.lock(names)` does so inside one. On SQLite every
 *   transaction is alone already.
 * - A long read calls `read(doing, script, { isLong: true })` and `yield* tx.pause()` after each short step: SQLite lets
 *   other requests in between and keeps one snapshot.
 * - A script may run again after a conflict, so it must not change anything outside of the transaction.
 *
 * SQL that both databases understand: `ON CONFLICT`, `RETURNING`, `UPDATE ... FROM`, `FILTER (WHERE ...)`, row values,
 * `IS [NOT] DISTINCT FROM`, `CAST(x AS bigint)` (not `x::bigint`). Cast a value that PostgreSQL cannot infer, and every
 * `sum()`, which it would give as a text: `CAST(sum(n) AS bigint)`. A condition in a SELECT list is 0 or 1 on SQLite and a
 * boolean on PostgreSQL: test it for truth only. JSON is stored as text.
 *
 * A subject that is driven from hot code of a driver (history, meters, batches) is an object of scripts that take `tx`
 * first. `atOnce(tx, scripts)` makes plain methods of them for SQLite, `awaited(scripts, txOf)` asynchronous ones for
 * PostgreSQL. The other way round, `answer(() => ...)` makes a script of what a driver does itself.
 */
export type Script<T> = Generator<unknown, T, unknown>

/** Runs a script to its end, for a driver that answers at once. */
export function finish<T>(script: Script<T>): T {
  for (;;) {
    const step = script.next()
    if (step.done === true) return step.value
    // A pause: nothing else can run here. Anything else would be an answer that is still to come.
    if (step.value !== undefined) throw new Error('A script waits for an answer inside a synchronous transaction.')
  }
}

/** Runs a script to its end, for a driver whose answers are promises. */
export async function awaiting<T>(script: Script<T>): Promise<T> {
  let step = script.next()
  while (step.done !== true) {
    let answer: unknown
    try {
      answer = await step.value
    } catch (error) {
      step = script.throw(error)
      continue
    }
    step = script.next(answer)
  }
  return step.value
}

/** Makes a step of a script from a call of the driver. */
export function* answer<T>(ask: () => T | PromiseLike<T>): Script<T> {
  const given = ask()
  return isPromise(given) ? ((yield given) as T) : given
}

const isPromise = <T>(given: T | PromiseLike<T>): given is PromiseLike<T> =>
  typeof (given as PromiseLike<T> | null | undefined)?.then === 'function'

// biome-ignore lint/suspicious/noExplicitAny: a parameter's type cannot be matched otherwise
type Scripts = Readonly<Record<string, (tx: any, ...rest: any[]) => unknown>>

export type AtOnce<S extends Scripts> = {
  readonly [Name in keyof S]: S[Name] extends (tx: never, ...rest: infer Rest) => Script<infer T>
    ? (...rest: Rest) => T
    : S[Name]
}

/** Scripts as methods that answer at once, inside the transaction of `tx`. */
export function atOnce<S extends Scripts>(tx: object, scripts: S): AtOnce<S> {
  const methods = Object.entries(scripts).map(([name, script]) => [
    name,
    (...rest: unknown[]) => finish(script(tx, ...rest) as Script<unknown>),
  ])
  return Object.fromEntries(methods) as AtOnce<S>
}

export type Awaited<On, S extends Scripts> = {
  readonly [Name in keyof S]: S[Name] extends (tx: never, ...rest: infer Rest) => Script<infer T>
    ? (on: On, ...rest: Rest) => Promise<T>
    : S[Name]
}

/** Scripts as asynchronous methods on a connection of the driver. */
export function awaited<On, S extends Scripts>(scripts: S, txOf: (on: On) => object): Awaited<On, S> {
  const methods = Object.entries(scripts).map(([name, script]) => [
    name,
    (on: On, ...rest: unknown[]) => awaiting(script(txOf(on), ...rest) as Script<unknown>),
  ])
  return Object.fromEntries(methods) as Awaited<On, S>
}
