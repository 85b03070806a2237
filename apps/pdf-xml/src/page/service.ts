import { type App, type Log, RedressError } from 'redress'
import type { Files } from '../files.ts'
import { GATEWAY } from '../policy.ts'

/** What concerns everybody's conversions: shown above them while it lasts. */
export interface Service {
  /** How the gateway is: called, waited for, or given up for now. */
  gateway: 'called' | 'held' | 'failing-fast'
  /** Whether there is room for files, and whether that place can be reached at all. */
  uploads: 'taken' | 'full' | 'away'
}

export async function serviceNow(app: App, files: Files, log: Log): Promise<Service> {
  const [{ breakers }, uploads] = await Promise.all([app.perform('breakers.list', {}), uploadsNow(files, log)])
  const breaker = breakers.find(({ name }) => name === GATEWAY)
  const isCalled = breaker === undefined || breaker.status === 'closed'
  const gateway = isCalled ? 'called' : breaker.mode === 'fail-fast' ? 'failing-fast' : 'held'
  return { gateway, uploads }
}

/** Somebody who came for what is done already must not be kept from it by a folder that is gone. */
async function uploadsNow({ uploads }: Files, log: Log): Promise<Service['uploads']> {
  try {
    return (await uploads.pressure()) === 'hard' ? 'full' : 'taken'
  } catch (error) {
    if (!(error instanceof RedressError)) throw error
    log.error({ event: 'uploads_away', err: error }, 'the place of the uploads cannot be reached')
    return 'away'
  }
}
