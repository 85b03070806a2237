import { RedressError } from '../../core/errors.ts'
import { optionNames, refuseUnknownOptions } from '../../core/text/options.ts'
import type { App } from '../app.ts'
import type { AnyContract } from './contract.ts'
import { type JobType, type ListFilter, SUBMIT_OPTIONS, WAIT_OPTIONS } from './job-type.ts'
import { JobFailed } from './outcome.ts'
import { ofOtherType, type Results } from './results.ts'

const LIST_OPTIONS = optionNames<ListFilter<string>>({
  status: true,
  owner: true,
  code: true,
  since: true,
  limit: true,
  cursor: true,
})

const SUBMIT_AND_WAIT_OPTIONS = [...SUBMIT_OPTIONS, ...WAIT_OPTIONS]

type BoundTo = Pick<App, 'submit' | 'submitMany' | 'prepare' | 'jobs'>

/** A job type that is bound to an app. Its static types are those of the contract. */
export function boundType({ name, policy }: AnyContract, app: BoundTo, results: Results): JobType<unknown> {
  return {
    name,
    policy,
    submit: (input, options) => app.submit(name, input, options),
    submitMany: (inputs, options) => app.submitMany(name, inputs, options),
    prepare: (input, options) => app.prepare(name, input, options),
    request: (input, options = {}) => ({ type: name, input, options }),
    isFailure: (error): error is JobFailed => error instanceof JobFailed && error.type === name,
    result: (id, options) => results.wait(name, id, options),

    async submitAndWait(input, options = {}) {
      refuseUnknownOptions(`submitAndWait() of ${name}`, options, SUBMIT_AND_WAIT_OPTIONS)
      const { timeout, signal, ...submission } = options
      const given = { ...(timeout !== undefined && { timeout }), ...(signal !== undefined && { signal }) }
      const wait = results.plan(`submitAndWait() of ${name}`, given)
      const { id } = await app.submit(name, input, submission)
      const outcome = await wait(name, id)
      if (outcome.kind === 'complete') return outcome.output
      throw outcome.error
    },

    async find(id) {
      const job = await app.jobs.find(id)
      if (job !== null && job.type !== name) throw ofOtherType(job, name)
      return job as Awaited<ReturnType<JobType<unknown>['find']>>
    },

    async list(options = {}) {
      refuseUnknownOptions(`list() of ${name}`, options, LIST_OPTIONS)
      const { since, ...filter } = options
      const created = since === undefined ? {} : { since: momentOf(since) }
      const { jobs, nextCursor } = await app.jobs.list({ ...filter, ...created, type: name })
      return { jobs, nextCursor } as Awaited<ReturnType<JobType<unknown>['list']>>
    },
  }
}

function momentOf(since: Date | string): string {
  if (!(since instanceof Date)) return since
  if (Number.isNaN(since.getTime())) throw new RedressError('OPTION_INVALID', 'since is an invalid Date.')
  return since.toISOString()
}
