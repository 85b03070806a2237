import { openPool, type Pool } from '../../../packages/redress/src/store/postgres/connection/client.ts'

/**
 * Schemas that are emptied and used again. Making one takes a hundred times as long as emptying it, and a suite of
 * hundreds of promises wants a fresh one for each.
 */
export class RecycledSchemas {
  readonly #sql: Pool
  readonly #taken = new Map<string, string>()
  readonly #free: string[] = []
  #made = 0

  constructor(url: string) {
    this.#sql = openPool({ url, schema: 'public', connectionsMax: 1 })
  }

  /** The same one for the same place, until it is given back. */
  of(place: string): string {
    const schema = this.#taken.get(place) ?? this.#free.pop() ?? `recycled_${process.pid}_${++this.#made}`
    this.#taken.set(place, schema)
    return schema
  }

  async giveBack(): Promise<void> {
    for (const [place, schema] of this.#taken) {
      await this.#sql.unsafe(emptied(schema))
      this.#taken.delete(place)
      this.#free.push(schema)
    }
  }

  async stop(): Promise<void> {
    await this.#sql.end({ timeout: 1 })
  }
}

/** As the migrations left it: they put in nothing but their number. No rule of the tables stands in the way. */
const emptied = (schema: string): string => `
  DO $$
  DECLARE
    one record;
  BEGIN
    SET LOCAL session_replication_role = replica;
    FOR one IN SELECT relname FROM pg_class WHERE relnamespace = '${schema}'::regnamespace AND relkind = 'r'
      AND relname <> 'redress_version' LOOP
      EXECUTE format('DELETE FROM %I.%I', '${schema}', one.relname);
    END LOOP;
    FOR one IN SELECT relname, seqstart FROM pg_sequence JOIN pg_class ON oid = seqrelid
      WHERE relnamespace = '${schema}'::regnamespace LOOP
      PERFORM setval(format('%I.%I', '${schema}', one.relname), one.seqstart, false);
    END LOOP;
  END $$`
