import multipart from '@fastify/multipart'
import { described } from '@redress/shared/routes'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Caller, CompleteJob, JobFile, Mount } from 'redress/http'
import { API } from './api.ts'
import { CONVERT, type ConvertResult } from './convert-job.ts'
import { resultKey } from './files.ts'
import { addPage } from './page/routes.ts'
import { type ReceiveOptions, type Refused, receive, type Sender } from './receive.ts'
import { addRecord } from './record.ts'
import { openSessions, ownerOf } from './session.ts'
import { VisitorLimits } from './visitors.ts'

/** Time for 50 MB over a slow connection. The server ends a stalled upload much earlier. */
const UPLOAD_MS = 20 * 60_000

/** The routes and the pages of pdf-xml. */
export function pdfXmlRoutes(given: Omit<ReceiveOptions, 'visitors'>): Mount {
  const { app, files, settings, log } = given
  return async (server, tools) => {
    const sessions = openSessions(settings, tools.isHttps)
    const options = { ...given, visitors: new VisitorLimits(app, settings, sessions.nameOf) }
    const senderOf = (caller: Caller): Sender => ({ owner: ownerOf(caller), isVisitor: sessions.isVisitor(caller) })
    tools.letIn(async (request) => sessions.find(request))
    tools.welcomeOwners('/convert')
    tools.offerFile(CONVERT, (job) => fileOf(job, options))
    /** A sender without a session gets one. */
    const callerOf = async (request: FastifyRequest, reply: FastifyReply): Promise<Caller> =>
      (await tools.findCaller(request)) ?? sessions.begin(reply)

    await server.register(multipart)
    // A PDF sent as the plain body is answered with "send a form", not with "send JSON".
    server.addContentTypeParser('*', (_request, _body, done) => done(null))
    server.post('/api/upload', described(API.upload, { bodyMs: UPLOAD_MS }), async (request, reply) => {
      const caller = await callerOf(request, reply)
      const received = await receive(request, senderOf(caller), options)
      if (received.kind === 'refused') return refuse(reply, received)
      const job = await app.performAs(caller, 'jobs.show', { id: received.jobId })
      return reply
        .code(received.kind === 'created' ? 201 : 200)
        .header('location', `/api/jobs/${received.jobId}`)
        .send(job)
    })
    addRecord(server, app, tools.findCaller)
    addPage(server, {
      app,
      settings,
      files,
      log,
      bodyMs: UPLOAD_MS,
      findCaller: tools.findCaller,
      callerOf,
      receive: (request, caller) => receive(request, senderOf(caller), options),
    })
  }
}

function refuse(reply: FastifyReply, { status, code, message, action, jobId, retryAfterMs }: Refused) {
  if (retryAfterMs !== undefined) void reply.header('retry-after', Math.max(1, Math.ceil(retryAfterMs / 1000)))
  return reply.code(status).send({ error: { code, message, action, ...(jobId !== undefined && { jobId }) } })
}

function fileOf(job: CompleteJob, { files }: Pick<ReceiveOptions, 'files'>): JobFile {
  const { fileName } = job.result as ConvertResult
  return { artifacts: files.results, key: resultKey(job.id), fileName, contentType: 'application/xml; charset=utf-8' }
}
