import { RedressError } from '../core/errors.ts'
import type { Store } from '../store/contract/store.ts'
import { type Caller, inScope, mayRole } from './caller.ts'
import { CATALOG } from './catalog.ts'
import { neededJob } from './jobs/needed-job.ts'

/** Throws unless the caller may subscribe to the topic. An owner may subscribe only to their own jobs and batches. */
export async function requireTopicAccess(store: Store, caller: Caller, topic: string): Promise<void> {
  if (!inScope(caller.scopes, 'jobs.events')) {
    throw new RedressError('ROLE_TOO_LOW', `jobs.events is not in the scopes of ${caller.name}.`)
  }
  if (topic.startsWith('log:') && !inScope(caller.scopes, 'jobs.logs')) {
    throw new RedressError('ROLE_TOO_LOW', `jobs.logs is not in the scopes of ${caller.name}.`)
  }
  if (caller.role !== 'owner' && mayRole(caller.role, CATALOG['jobs.events'])) return
  const [thing = '', ...rest] = topic.split(':')
  const name = rest.join(':')
  const account = caller.account ?? ''
  if (thing === 'owner' && name === account) return
  if (thing === 'job') {
    await neededJob(store, name, account)
    return
  }
  if (thing === 'batch') {
    const batch = await store.batch({ id: name })
    if (batch !== null && batch.owner === account) return
    throw new RedressError('BATCH_NOT_FOUND', `There is no batch ${name}.`)
  }
  throw new RedressError('ROLE_TOO_LOW', `The topic ${topic} needs the role viewer; ${caller.name} is an owner.`, {
    action: `Ask for owner:${account}, or for a job or batch of your own.`,
  })
}
