import { packPackages } from './packing.ts'

/** The variable that tells test files where to ask for the servers of the run. */
export const SHARED_SERVERS = 'REDRESS_SHARED_TEST_SERVERS'

/** Asks the run for a server (a new database, or the browser) or for the folder of packed packages. Null where no run shares any, as in a benchmark. */
export async function sharedServer(kind: 'database' | 'browser' | 'packages'): Promise<string | null> {
  const host = process.env[SHARED_SERVERS]
  if (host === undefined) return null
  const answer = await fetch(`${host}/${kind}`)
  const text = await answer.text()
  if (!answer.ok) throw new Error(`the run could not start the ${kind}: ${text}`)
  return text
}

/** A bound for a busy machine. */
export const PACKING_MS_MAX = 300_000

/** The folder with the packages as they are published. A run builds them once. */
export async function packedPackages(): Promise<string> {
  return (await sharedServer('packages')) ?? packPackages()
}
