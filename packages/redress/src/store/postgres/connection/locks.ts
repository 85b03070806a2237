import { RedressError } from '../../../core/errors.ts'
import type { Tx } from './client.ts'
import { codeOf } from './errors.ts'

/**
 * Until the end of the transaction, whoever asks for one of these names waits. All who take several take them in one
 * call, which does so in one order: no two of them wait for each other.
 */
export async function lockNames(tx: Tx, names: readonly string[]): Promise<void> {
  if (names.length === 0) return
  const sorted = [...new Set(names)].toSorted()
  await tx`
    SELECT pg_advisory_xact_lock(hashtext(current_schema() || ' ' || name)) FROM unnest(${sorted}::text[]) AS name`
}

/** The same without waiting: answers with those that were free, or that this transaction holds already. */
export async function tryLockNames(tx: Tx, names: readonly string[]): Promise<ReadonlySet<string>> {
  if (names.length === 0) return new Set()
  const rows = await tx<{ name: string; locked: boolean }[]>`
    SELECT name, pg_try_advisory_xact_lock(hashtext(current_schema() || ' ' || name)) AS locked
    FROM unnest(${names}::text[]) AS name`
  return new Set(rows.filter(({ locked }) => locked).map(({ name }) => name))
}

/** The same for one name, without waiting. True also where this transaction holds it already. */
export async function tryLockName(tx: Tx, name: string): Promise<boolean> {
  const [row] = await tx<{ locked: boolean }[]>`
    SELECT pg_try_advisory_xact_lock(hashtext(current_schema() || ' ' || ${name})) AS locked`
  return (row as { locked: boolean }).locked
}

/**
 * What a look finds of an earlier transaction may be on this server alone: a commit can be seen before the synchronous
 * standby has it, when somebody has ended its wait. A transaction that writes waits itself, and so for all before it.
 * One that writes nothing would not; so it writes a word that nobody reads.
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
