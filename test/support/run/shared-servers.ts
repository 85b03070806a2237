/** The variable that tells test files where to ask for the servers of the run. */
export const SHARED_SERVERS = 'REDRESS_SHARED_TEST_SERVERS'

/** Asks the run for a server: a new database, or the browser. Null where no run shares any, as in a benchmark. */
export async function sharedServer(kind: 'database' | 'browser'): Promise<string | null> {
  const host = process.env[SHARED_SERVERS]
  if (host === undefined) return null
  const answer = await fetch(`${host}/${kind}`)
  const text = await answer.text()
  if (!answer.ok) throw new Error(`the run could not start the ${kind}: ${text}`)
  return text
}
