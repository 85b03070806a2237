import type { App } from 'redress'
import type { Files } from '../files.ts'
import { GATEWAY } from '../policy.ts'

/** What concerns everybody's conversions: shown above them while it lasts. */
export interface Service {
  /** How the gateway is: called, waited for, or given up for now. */
  gateway: 'called' | 'held' | 'failing-fast'
  areUploadsPaused: boolean
}

export async function serviceNow(app: App, { uploads }: Files): Promise<Service> {
  const [{ breakers }, pressure] = await Promise.all([app.perform('breakers.list', {}), uploads.pressure()])
  const breaker = breakers.find(({ name }) => name === GATEWAY)
  const isCalled = breaker === undefined || breaker.status === 'closed'
  const gateway = isCalled ? 'called' : breaker.mode === 'fail-fast' ? 'failing-fast' : 'held'
  return { gateway, areUploadsPaused: pressure === 'hard' }
}
