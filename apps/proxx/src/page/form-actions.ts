import type { FastifyReply } from 'fastify'
import { RedressError } from 'redress'
import type { Caller } from 'redress/http'
import { httpStatusOf } from '../codes.ts'
import { isSameSpec, markFailed, type Proxx, retryOnce, type Submitted, submitSpec } from '../operations.ts'
import type { Report } from '../spec/checks.ts'
import type { Problem } from '../spec/spec.ts'
import { type ProxxJob, refusalIn } from '../view.ts'
import { type Fields, type RefusedAct, specOfForm } from './forms.ts'
import type { Pages } from './index.ts'

/** A submitted form, which is answered with a page. */
interface Sent {
  reply: FastifyReply
  caller: Caller
  fields: Fields
}

/** The actions of the forms: the same as the API. A refused form comes back with everything that was typed. */
export class Forms {
  readonly #proxx: Proxx
  readonly #pages: Pages

  constructor(proxx: Proxx, pages: Pages) {
    this.#proxx = proxx
    this.#pages = pages
  }

  async submit({ reply, caller, fields }: Sent) {
    const spec = specOfForm(fields)
    const { id } = fields
    const sent = await submitSpec(this.#proxx, spec, { caller }, id === undefined ? {} : { id })
    const { job, isNew } = isMeant(sent, spec) ? sent : await submitSpec(this.#proxx, spec, { caller })
    const error = refusalIn(job)
    if (error === null || !isNew) return toJob(reply, job)
    const report = { problems: problemsIn(job), outputs: [], estimateBytes: null, freeBytes: null }
    void reply.code(httpStatusOf(error.code))
    return this.#pages.submitAgain(reply, caller, fields, { report, recordedId: job.id })
  }

  validated({ reply, caller, fields }: Sent, report: Report) {
    const [first] = report.problems
    if (first !== undefined) void reply.code(httpStatusOf(first.code))
    return this.#pages.submitAgain(reply, caller, fields, { report, recordedId: null })
  }

  async retry({ reply, caller, fields }: Sent, job: ProxxJob) {
    return this.#acted({ reply, caller, fields }, job, 'retry', async () => {
      const edited = editedSpec(fields.spec, job.spec)
      const act = { caller, reason: fields.reason ?? '', again: fields.again === 'yes', ...edited }
      const sent = await retryOnce(this.#proxx, job.id, { ...act, newId: fields.id })
      return isMeant(sent, edited.spec ?? job.spec) ? sent : retryOnce(this.#proxx, job.id, act)
    })
  }

  async markFailed({ reply, caller, fields }: Sent, job: ProxxJob) {
    return this.#acted({ reply, caller, fields }, job, 'mark-failed', async () => {
      return { job: await markFailed(this.#proxx, job.id, { caller, reason: fields.reason ?? '' }), isNew: false }
    })
  }

  async #acted(
    { reply, caller, fields }: Sent,
    job: ProxxJob,
    act: RefusedAct['act'],
    perform: () => Promise<Submitted>,
  ): Promise<FastifyReply> {
    const refused = (status: number, rest: Omit<RefusedAct, 'act' | 'fields'>) =>
      this.#pages.job(reply.code(status), caller, job, { act, fields, ...rest })
    try {
      const { job: made, isNew } = await perform()
      const error = refusalIn(made)
      if (error === null || !isNew) return toJob(reply, made)
      const [status, problems] = [httpStatusOf(error.code), problemsIn(made)]
      return await refused(status, { message: 'The retry was refused.', problems, recordedId: made.id })
    } catch (error) {
      if (!(error instanceof RedressError) || error.httpStatus >= 500) throw error
      const message = `${error.message} ${error.action}`
      return refused(error.httpStatus, { message, problems: [], recordedId: null })
    }
  }
}

const toJob = (reply: FastifyReply, { id }: ProxxJob): FastifyReply => reply.redirect(`/proxx/jobs/${id}`, 303)

/** Sent again as it was, it is the same job, which has a page. Corrected after going back, it is another one. */
const isMeant = ({ job, isNew }: Submitted, spec: unknown): boolean => isNew || isSameSpec(job.spec, spec)

const problemsIn = ({ error }: ProxxJob): Problem[] => (error?.problems ?? []) as Problem[]

/** P44: the spec is another one only if it says something else; a kept one keeps the version of its profile. */
function editedSpec(text: string | undefined, kept: unknown): { spec?: unknown } {
  if (text === undefined) return {}
  let spec: unknown
  try {
    spec = JSON.parse(text)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new RedressError('REQUEST_INVALID', `The spec is not JSON: ${why}.`, {
      action: 'Nothing was recorded. Correct it and send it again.',
      cause: error,
    })
  }
  return isSameSpec(spec, kept) ? {} : { spec }
}
