import { formFields, wantsPage } from '@redress/shared/pages'
import { answerRefusals, described, Refused } from '@redress/shared/routes'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { RedressError } from 'redress'
import { type Caller, diskFile, type Mount, sendFile } from 'redress/http'
import { callerOf, shownTo, staffOf } from './access.ts'
import { API } from './api.ts'
import { httpStatusOf } from './codes.ts'
import {
  isSameSpec,
  listOrphans,
  markFailed,
  type Proxx,
  retryOnce,
  type Submitted,
  submitSpec,
  submittingOwner,
  validateSpec,
  verifyOutputs,
} from './operations.ts'
import { Forms } from './page/form-actions.ts'
import { specOfForm } from './page/forms.ts'
import { addPages } from './page/index.ts'
import { errnoOf } from './paths.ts'
import { TYPE } from './policy.ts'
import { PROFILES } from './spec/profiles.ts'
import { inOneLine, type Problem, SPEC_SCHEMA } from './spec/spec.ts'
import { stderrLogOf } from './trace.ts'
import { type ProxxJob, refusalIn } from './view.ts'

const LIST_MAX = 100

/** The API of proxx. The engine decides who may act on a job. */
export function proxxRoutes(proxx: Proxx): Mount {
  const { app, files, settings } = proxx
  return async (server, tools) => {
    const pages = addPages(server, { proxx, tools, seen })
    const forms = new Forms(proxx, pages)
    answerRefusals(server, {
      isFor: wantsPage,
      show: (request, reply, refusal) =>
        refusal.code === 'SIGN_IN_REQUIRED' ? tools.sendToSignIn(request, reply) : pages.refused(reply, refusal),
    })
    // One address answers with a page or with JSON.
    server.addHook('onRequest', async (_request, reply) => void reply.header('vary', 'accept'))

    server.get('/proxx/spec.schema.json', described(API.specSchema), async (_request, reply) =>
      reply.type('application/schema+json').send(JSON.stringify(SPEC_SCHEMA)),
    )
    server.get('/proxx/profiles', described(API.profiles), async () => ({ profiles: [...PROFILES.values()] }))

    server.post('/proxx/jobs', described(API.submit), async (request, reply) => {
      const caller = await callerOf(tools, request)
      const fields = formOf(request)
      if (fields !== null) return forms.submit({ reply, caller, fields })
      const spec: unknown = request.body ?? null
      const id = ownIdIn(request)
      const made = await submitSpec(proxx, spec, { caller }, id === undefined ? {} : { id })
      // A job that existed before may belong to another owner.
      if (!made.isNew) await app.performAs(caller, 'jobs.show', { id: made.job.id })
      refuseOther(made, spec)
      return answerMade(reply, caller, made)
    })

    server.post('/proxx/validate', described(API.validate), async (request, reply) => {
      const caller = await callerOf(tools, request)
      // A caller who may not submit must not learn which files exist.
      const owner = submittingOwner(caller)
      if (owner === null) await app.performAs(caller, 'jobs.submit', { type: TYPE, input: {}, dryRun: true })
      const fields = formOf(request)
      const spec = fields === null ? (request.body ?? null) : specOfForm(fields)
      const report = await validateSpec(proxx, spec, owner)
      if (fields !== null) return forms.validated({ reply, caller, fields }, report)
      return { valid: report.problems.length === 0, ...report }
    })

    server.get('/proxx/jobs', described(API.list), async (request, reply) => {
      const caller = await callerOf(tools, request)
      if (wantsPage(request)) return reply.redirect(`/proxx${new URL(request.url, 'http://host').search}`, 303)
      const { status, code, cursor, limit } = request.query as Record<string, string | undefined>
      const asked = {
        type: TYPE,
        limit: Math.min(LIST_MAX, Number(limit ?? LIST_MAX) || LIST_MAX),
        ...(status !== undefined && { status: status === 'pending' ? 'queued' : status }),
        ...(code !== undefined && { code }),
        ...(cursor !== undefined && { cursor }),
      }
      const { jobs, nextCursor } = (await app.performAs(caller, 'jobs.list', asked)) as {
        jobs: { id: string }[]
        nextCursor: string | null
      }
      const views = await Promise.all(jobs.map(({ id }) => files.view(id)))
      return { jobs: views.flatMap((view) => (view === null ? [] : [shownTo(caller, view)])), nextCursor }
    })

    server.get('/proxx/orphans', described(API.orphans), async (request) => {
      const caller = await callerOf(tools, request)
      await app.performAs(caller, 'orphans.list', { type: TYPE, limit: 1 })
      return { jobs: await listOrphans(proxx) }
    })

    server.get('/proxx/jobs/:id', described(API.job), async (request, reply) => {
      const caller = await callerOf(tools, request)
      const job = await seen(request, caller)
      return wantsPage(request) ? pages.job(reply, caller, job) : shownTo(caller, job)
    })

    server.get('/proxx/jobs/:id/job.json', described(API.jobFile), async (request, reply) => {
      const { id } = await seen(request, await staffOf(tools, request))
      await files.write(id)
      return sendLog(request, reply, files.pathOf(id), 'application/json; charset=utf-8')
    })

    server.get('/proxx/jobs/:id/stderr', described(API.stderr), async (request, reply) => {
      const { id } = await seen(request, await staffOf(tools, request))
      return sendLog(request, reply, stderrLogOf(settings.jobs, id), 'text/plain; charset=utf-8')
    })

    // Problems of the body are reported only for a job that the caller may see.
    const seenFirst = {
      async errorHandler(error: unknown, request: FastifyRequest): Promise<never> {
        if (!(error instanceof RedressError)) await seen(request, await callerOf(tools, request))
        throw error
      },
    }

    server.post('/proxx/jobs/:id/retry', { ...described(API.retry), ...seenFirst }, async (request, reply) => {
      const caller = await callerOf(tools, request)
      const failed = await seen(request, caller)
      const fields = formOf(request)
      if (fields !== null) return forms.retry({ reply, caller, fields }, failed)
      const { reason = '', spec, again = false } = (request.body ?? {}) as RetryBody
      const edited = spec === undefined ? {} : { spec }
      const made = await retryOnce(proxx, failed.id, { caller, reason, again, newId: ownIdIn(request), ...edited })
      refuseOther(made, spec ?? failed.spec)
      return answerMade(reply, caller, made)
    })

    server.post(
      '/proxx/jobs/:id/mark-failed',
      { ...described(API.markFailed), ...seenFirst },
      async (request, reply) => {
        const caller = await callerOf(tools, request)
        const orphan = await seen(request, caller)
        const fields = formOf(request)
        if (fields !== null) return forms.markFailed({ reply, caller, fields }, orphan)
        const { reason = '' } = (request.body ?? {}) as { reason?: string }
        return shownTo(caller, await markFailed(proxx, orphan.id, { caller, reason }))
      },
    )

    server.post('/proxx/jobs/:id/verify', described(API.verify), async (request) => {
      const caller = await callerOf(tools, request)
      const { id } = await seen(request, caller)
      // It needs the machine for the time of decoding all outputs.
      if (caller.role === 'owner' || caller.role === 'viewer') {
        throw new RedressError('ROLE_TOO_LOW', 'Verifying outputs again is for operators.')
      }
      return { outputs: await verifyOutputs(proxx, id) }
    })
  }

  /** Theirs to see, or a refusal as for every job. */
  async function seen(request: FastifyRequest, caller: Caller): Promise<ProxxJob> {
    const { id } = request.params as { id: string }
    await app.performAs(caller, 'jobs.show', { id })
    const view = await files.view(id)
    if (view === null) throw new RedressError('JOB_NOT_FOUND', `There is no job ${id} of proxx.`)
    return view
  }
}

interface RetryBody {
  reason?: string
  spec?: unknown
  again?: boolean
}

/** With an id of the caller's own for the new job, an answer that was lost can be asked for again. */
function ownIdIn({ query }: FastifyRequest): string | undefined {
  const { id } = query as { id?: unknown }
  if (id === undefined || typeof id === 'string') return id
  throw new RedressError('OPTION_INVALID', 'id must be given once.')
}

/** A different spec under an id that is taken is refused, so that the client does not believe it was submitted. */
function refuseOther({ job, isNew }: Submitted, spec: unknown): void {
  if (isNew || isSameSpec(job.spec, spec)) return
  throw new RedressError('JOB_WRONG_STATE', `Job ${job.id} is there already, and has another spec.`, {
    action: 'Nothing was submitted. Send this spec with an id of its own.',
    jobId: job.id,
  })
}

/** A job that failed before its dispatch exists, and the request is still refused (P5, P9). */
function answerMade(reply: FastifyReply, caller: Caller, { job, isNew }: Submitted) {
  void reply.header('location', `/proxx/jobs/${job.id}`)
  const refusal = refusalIn(job)
  if (refusal === null) return reply.code(isNew ? 201 : 200).send(shownTo(caller, job))
  const { code, message } = refusal
  const problems = (refusal.problems as Problem[]).map(inOneLine)
  const error = { code, message, action: ACTION, jobId: job.id, problems }
  return reply.code(httpStatusOf(code)).send({ error, job: shownTo(caller, job) })
}

const ACTION = 'Nothing was run. Correct what is wrong and retry the job with another spec, or submit a new one.'

/** The fields of a form of our pages; null for requests of programs. */
const formOf = (request: FastifyRequest) => (wantsPage(request) ? formFields(request) : null)

async function sendLog(request: FastifyRequest, reply: FastifyReply, path: string, contentType: string) {
  try {
    return await sendFile(request, reply, diskFile(path), { contentType })
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error
    const message = 'Nothing was run for this job, so no program has said anything.'
    throw new Refused({ status: 404, code: 'NOTHING_RUN', message, action: 'Look at the error of the job.' })
  }
}
