import type { FastifyRequest } from 'fastify'
import { RedressError } from 'redress'
import type { Caller, MountTools } from 'redress/http'
import type { Settings } from './settings.ts'
import type { ProxxJob } from './view.ts'

export async function callerOf({ findCaller }: MountTools, request: FastifyRequest): Promise<Caller> {
  const caller = await findCaller(request)
  if (caller === null) throw new RedressError('SIGN_IN_REQUIRED', 'Sign in to use proxx.')
  return caller
}

/** The output of programs can contain any path of the machine, so only operators may read it. */
export async function staffOf(tools: MountTools, request: FastifyRequest): Promise<Caller> {
  const caller = await callerOf(tools, request)
  if (caller.role === 'owner') throw new RedressError('ROLE_TOO_LOW', 'Logs and job files are for operators.')
  return caller
}

/** Owners see what happened, without the output and the names of machines. */
export function shownTo({ role }: Caller, job: ProxxJob): ProxxJob {
  if (role !== 'owner') return job
  const error = job.error && { ...job.error, worker: null, stderrTail: null, detail: '' }
  return { ...job, worker: null, error }
}

export const isInScope = ({ scopes }: Caller, name: `jobs.${string}`): boolean =>
  scopes === null || scopes.includes(name) || scopes.includes('jobs.*')

/** Pages hide actions that the caller may not take. */
export interface Rights {
  submit: boolean
  retry: boolean
  /** Whether a retry may have another spec. Owners may not: it could name another owner's files. */
  edit: boolean
  mark: boolean
  /** Workers, logs and files of the machine. */
  seesMachines: boolean
}

export function rightsOf(caller: Caller, { roots }: Pick<Settings, 'roots'>): Rights {
  const isOwner = caller.role === 'owner'
  const acts = caller.role !== 'viewer' && (!isOwner || (roots !== null && caller.account !== null))
  return {
    submit: acts && isInScope(caller, 'jobs.submit'),
    retry: acts && isInScope(caller, 'jobs.retry'),
    edit: acts && !isOwner && isInScope(caller, 'jobs.retry'),
    mark: acts && !isOwner && isInScope(caller, 'jobs.mark-failed'),
    seesMachines: !isOwner,
  }
}
