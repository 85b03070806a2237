import type { AsyncExecutor, SqlValue } from '../../contract/transactional.ts'
import type { Tx } from './client.ts'
import { literalOf } from './values.ts'

type Value = SqlValue | readonly SqlValue[]

/** Clients differ in what they make of a bigint: a string, a BigInt, a number. By these names we know them. */
const NUMBERS: ReadonlySet<string> = new Set(
  `key batch place seq permanent version oldest position is_current now at until repeats total unfinished complete failed
  cancelled sealed settlements created_at settled_at expires_at registered_at stuck_after`.split(/\s+/),
)

/**
 * The caller's own connection in the shape that the parts of the store work with: of our client, the little that those
 * use who submit. One statement at a time: not every client can be handed the next one before the answer.
 */
export function foreignConnection(executor: AsyncExecutor): Tx {
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
