import { writeFileSync } from 'node:fs'
import { Session } from 'node:inspector/promises'
import postgres from 'postgres'

/** Profiles this process, and counts statements anew, from the first line that is measured to the last. */
export function openProfile(path: string, address: string) {
  const session = new Session()
  return {
    async before() {
      if (address.startsWith('postgres')) {
        const sql = postgres(address, { max: 1 })
        // Without the extension there is nothing to count anew.
        await sql`SELECT pg_stat_statements_reset()`.catch(() => undefined)
        await sql.end()
      }
      session.connect()
      await session.post('Profiler.enable')
      await session.post('Profiler.setSamplingInterval', { interval: 500 })
      await session.post('Profiler.start')
    },
    async after() {
      const { profile } = await session.post('Profiler.stop')
      session.disconnect()
      writeFileSync(path, JSON.stringify(profile))
    },
  }
}
