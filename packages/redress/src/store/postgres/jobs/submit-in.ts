import { RedressError } from '../../../core/errors.ts'
import type { NewJob, Submitted } from '../../contract/store.ts'
import type { AsyncExecutor, Executor, SqlValue } from '../../contract/transactional.ts'
import { noTransaction, refuseWriteAhead } from '../../scripts/jobs/submitting.ts'
import type { Tx } from '../connection/client.ts'
import type { PgContext } from '../connection/context.ts'
import { isTransient, storeError } from '../connection/errors.ts'
import { literalOf } from '../connection/values.ts'
import { refuseTooNew, versionOf } from '../schema/migrate.ts'
import type { SubmitWithin } from './submissions.ts'

const DOING = 'submitting in your transaction'

/** Submits on the caller's connection, inside the caller's transaction. */
export function openSubmitIn(
  { sql, types, givenNowMs, read, wakes }: PgContext,
  schema: string,
  submitWithin: SubmitWithin,
) {
  /** The unique id of our database. */
  let ours: string | null = null
  const ourMark = async (): Promise<string> => {
    if (ours !== null) return ours
    const [row] = await sql<{ store: string }[]>`SELECT store::text FROM redress_version`
    ours = (row as { store: string }).store
    return ours
  }

  /** Sets the search path to our schema; the caller's path is restored afterwards. */
  const findTables = async (tx: Tx, mark: string): Promise<{ path: string }> => {
    const [row] = await tx<{ path: string; tables: string | null }[]>`
      SELECT current_setting('search_path') AS path, to_regclass(format('%I.redress_version', ${schema}::text))::text AS tables`
    const { path, tables } = row as { path: string; tables: string | null }
    if (tables === null) throw wrongDatabase(schema)
    await tx`SELECT set_config('search_path', quote_ident(${schema}::text), true)`
    const found = await versionOf(tx)
    if (found?.store !== mark) throw wrongDatabase(schema)
    refuseTooNew(found, `The schema ${schema}`)
    return { path }
  }

  const clock = async (tx: Tx): Promise<number> => {
    const given = givenNowMs()
    if (given !== null) return given
    const [row] = await tx<{ now: number }[]>`SELECT redress_now() AS now`
    return (row as { now: number }).now
  }

  const submitAll = async (tx: Tx, mark: string, jobs: readonly NewJob[]): Promise<Submitted[]> => {
    const { path } = await findTables(tx, mark)
    await types.keepUp(tx)
    for (const { type } of jobs) refuseWriteAhead(await types.needed(type, tx))
    const nowMs = await clock(tx)
    const submitted = await submitWithin(tx, jobs, nowMs)
    await wakes.wakeIn(tx)
    await tx`SELECT set_config('search_path', ${path}, true)`
    return submitted
  }

  return async (executor: Executor, jobs: readonly NewJob[]): Promise<Submitted[]> => {
    if (!isAsync(executor)) {
      const message = 'This store is in PostgreSQL: give a client with `query(sql, values)`, as that of node-postgres.'
      throw new RedressError('TX_WRONG_DATABASE', message)
    }
    const mark = await read(DOING, ourMark)
    const tx = foreignConnection(executor)
    try {
      // If the caller catches a refusal and commits anyway, no part of the submission may remain.
      await tx`SAVEPOINT redress_submit`
    } catch (error) {
      throw codeOf(error) === '25P01' ? noTransaction(error) : inOurWords(error)
    }
    try {
      const submitted = await submitAll(tx, mark, jobs)
      await tx`RELEASE SAVEPOINT redress_submit`
      return submitted
    } catch (error) {
      await undo(tx)
      throw inOurWords(error)
    }
  }
}

/** This also restores the search path. */
async function undo(tx: Tx): Promise<void> {
  try {
    await tx`ROLLBACK TO SAVEPOINT redress_submit`
    await tx`RELEASE SAVEPOINT redress_submit`
  } catch {
    // The connection is gone; the first error says more than this one.
  }
}

const isAsync = (executor: unknown): executor is AsyncExecutor =>
  typeof (executor as Partial<AsyncExecutor> | null)?.query === 'function'

const codeOf = (error: unknown): unknown => (error as { code?: unknown } | null)?.code

const wrongDatabase = (schema: string): RedressError =>
  new RedressError('TX_WRONG_DATABASE', `This connection is to a database whose schema ${schema} is not this store.`)

function inOurWords(error: unknown): RedressError {
  if (!isTransient(error)) return storeError(error, DOING)
  return new RedressError('STORE_BUSY', 'Your transaction and another one stood in each other’s way.', {
    cause: error,
    action: 'Roll back and do it again.',
  })
}

type Value = SqlValue | readonly SqlValue[]

/** Clients read a bigint as a string, a BigInt or a number. These columns are converted to numbers. */
const NUMBERS: ReadonlySet<string> = new Set(
  `key batch place seq permanent version oldest position is_current now at until repeats total unfinished complete failed
  cancelled sealed settlements created_at settled_at expires_at registered_at stuck_after singletons
  job attempt due_at dedupe_until ttl_until`.split(/\s+/),
)

/**
 * The caller's connection with the part of our client's interface that a submission uses. It sends one statement at a time,
 * because not every client accepts the next one before the answer.
 */
function foreignConnection(executor: AsyncExecutor): Tx {
  let last: Promise<unknown> = Promise.resolve()
  const unsafe = (sql: string, values: readonly Value[]) => {
    const given = values.map((value) => (isArray(value) ? literalOf(value) : value))
    const answer = last.then(async () => (await executor.query(sql, given)).rows.map(inNumbers))
    last = answer.catch(() => undefined)
    return answer
  }
  const query = (strings: TemplateStringsArray, ...values: readonly Value[]) =>
    unsafe(
      strings.reduce((text, part, i) => `${text}$${i}${part}`),
      values,
    )
  return Object.assign(query, { unsafe }) as unknown as Tx
}

const isArray = (value: Value): value is readonly SqlValue[] => Array.isArray(value)

const inNumbers = (row: Record<string, unknown>): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name, value !== null && NUMBERS.has(name) ? Number(value) : value]),
  )
