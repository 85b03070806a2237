import { wantsPage } from '@redress/shared/pages'
import { described, Refused } from '@redress/shared/routes'
import type { FastifyInstance } from 'fastify'
import { NOT_PUBLISHED, notFound } from '../access.ts'
import { API } from '../api.ts'
import { receiveFile } from '../assets/uploads.ts'
import { suspectKey } from '../files.ts'
import { flash } from '../page/index.ts'
import { type RouteContext, UPLOAD_MS } from '../route-context.ts'
import { DETECT } from './detect-job.ts'
import { addDetection, findDetection, listDetections } from './detections.ts'

/** Routes of searches: upload a suspect file, and read the result of its job. */
export function addDetectionRoutes(server: FastifyInstance, context: RouteContext): void {
  const { app, rows, files, settings, detect } = context.options

  server.post('/campaigns/:id/detect', described(API.detect, { bodyMs: UPLOAD_MS }), async (request, reply) => {
    const caller = await context.writing(request)
    const campaign = await context.campaignOf(request, caller)
    if (campaign.state === 'DRAFT') throw new Refused(NOT_PUBLISHED)
    const id = app.newId()
    const { fileName } = await receiveFile(request, files.assets, suspectKey(id), settings.uploadBytesMax)
    // The row comes first: a row without a job is not shown, but a job without a row would be lost.
    const row = { id, campaign_id: campaign.id, file_name: fileName, created_at: await context.nowMs() }
    await addDetection(rows, row)
    await detect.submit({ campaignId: campaign.id, fileName }, { id, owner: campaign.account_id })
    if (wantsPage(request)) {
      return flash(reply, `/campaigns/${campaign.id}/detections/${id}`, `The search in ${fileName} has started.`)
    }
    return reply.code(202).header('location', `/api/jobs/${id}`).send({ id, type: DETECT, status: 'queued' })
  })

  server.get('/campaigns/:id/detections', described(API.detections), async (request, reply) => {
    const caller = await context.reading(request)
    const campaign = await context.campaignOf(request, caller)
    const detections = await listDetections(app, rows, campaign.id)
    const shown = { caller, campaign, detections }
    return context.pagesFor(request)?.detections(request, reply, shown) ?? reply.send({ detections })
  })

  server.get('/campaigns/:id/detections/:detectionId', described(API.detection), async (request, reply) => {
    const caller = await context.reading(request)
    const campaign = await context.campaignOf(request, caller)
    const { detectionId } = request.params as { detectionId: string }
    const detection = await findDetection(app, rows, campaign.id, detectionId)
    if (detection === null) throw notFound('detection')
    const shown = { caller, campaign, detection }
    return context.pagesFor(request)?.detection(request, reply, shown) ?? reply.send(detection)
  })
}
