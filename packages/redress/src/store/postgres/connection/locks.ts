import { RedressError } from '../../../core/errors.ts'
import type { Tx } from './client.ts'
import { codeOf } from './errors.ts'

/**
 * Until the end of the transaction, other transactions wait for these names. A transaction that needs several takes them in
 * one call, which sorts them: so there is no deadlock.
 */
export async function lockNames(tx: Tx, names: readonly string[]): Promise<void> {
  if (names.length === 0) return
  const sorted = [...new Set(names)].toSorted()
  await tx`
    SELECT pg_advisory_xact_lock(hashtext(current_schema() || ' ' || name)) FROM unnest(${sorted}::text[]) AS name`
}

/** The same without waiting. Returns the names that were free, or that this transaction holds already. */
export async function tryLockNames(tx: Tx, names: readonly string[]): Promise<ReadonlySet<string>> {
  if (names.length === 0) return new Set()
  const rows = await tx<{ name: string; locked: boolean }[]>`
    SELECT name, pg_try_advisory_xact_lock(hashtext(current_schema() || ' ' || name)) AS locked
    FROM unnest(${names}::text[]) AS name`
  return new Set(rows.filter(({ locked }) => locked).map(({ name }) => name))
}

/** The same for one name. True also if this transaction holds it already. */
export async function tryLockName(tx: Tx, name: string): Promise<boolean> {
  const [row] = await tx<{ locked: boolean }[]>`
    SELECT pg_try_advisory_xact_lock(hashtext(current_schema() || ' ' || ${name})) AS locked`
  return (row as { locked: boolean }).locked
}

/**
 * A commit is visible before the synchronous standby has it, if its wait was cancelled. A transaction that writes waits for
 * the standby itself, and so for all commits before it. One that only reads would not wait, so it writes a message that has
 * no reader.
 */
export async function waitForStandby(tx: Tx): Promise<void> {
  await tx`SELECT pg_logical_emit_message(true, 'redress', '')`
}

export type Transaction = (run: (tx: Tx, nowMs: number) => Promise<void>) => Promise<unknown>

/**
 * A transaction that waits for the lock of a table makes all others wait behind it, submissions and renewals too. So the wait is
 * short, and there is one try.
 */
const IN_PASSING = `SET LOCAL lock_timeout = '100ms'; SET LOCAL statement_timeout = '2s'`
/** A lock timeout, a statement timeout, or a deadlock. */
const IN_THE_WAY: ReadonlySet<string> = new Set(['55P03', '57014', '40P01'])

class Blocked extends RedressError {
  constructor(error: unknown) {
    super('STORE_BUSY', 'Another transaction holds a lock that is needed.', { cause: error })
  }
}

/** Returns false if another session holds the lock; then nothing was done. */
export async function inPassing(
  transaction: Transaction,
  run: (tx: Tx, nowMs: number) => Promise<void>,
): Promise<boolean> {
  try {
    await transaction(async (tx, nowMs) => {
      await tx.unsafe(IN_PASSING)
      try {
        await run(tx, nowMs)
      } catch (error) {
        throw IN_THE_WAY.has(codeOf(error)) ? new Blocked(error) : error
      }
    })
    return true
  } catch (error) {
    if (error instanceof Blocked) return false
    throw error
  }
}
