import { HTML } from '@redress/shared/routes'
import type { RouteDescription } from 'redress/http'
import { z } from 'zod'

export const visitors = 'Also for visitors who have not signed in: they see only what they sent themselves.'
const job = z.object({ id: z.string(), type: z.string(), status: z.string() }).loose()
const upload = { types: ['multipart/form-data'] }
const toPage = { description: 'Back to the page.' }
const act = (summary: string): RouteDescription => ({
  summary,
  description: visitors,
  answers: {
    200: { description: 'For the script of the page.', json: z.object({ said: z.unknown() }) },
    303: toPage,
  },
})

/** How the OpenAPI document describes the routes of pdf-xml. */
export const API = {
  upload: {
    summary: 'Upload a PDF to have it converted: a form with the field `file`, and `mapping` if wanted.',
    description: visitors,
    body: upload,
    answers: {
      200: { description: 'The same file is being converted already: that job.', json: job },
      201: { description: 'The new job, as `GET /api/jobs/{id}` shows it.', json: job },
    },
  },
  page: {
    summary: 'The page on which people convert PDF files.',
    isPublic: true,
    query: z.object({ cursor: z.string().optional(), id: z.string().optional() }),
    answers: { 200: { description: 'The page.', types: [HTML] } },
  },
  state: {
    summary: 'What has changed on the page.',
    description: visitors,
    query: z.object({ cursor: z.string().optional(), since: z.string().optional(), id: z.string().optional() }),
    answers: {
      200: {
        description: 'Parts of the page.',
        json: z.object({
          timestamp: z.unknown(),
          isActive: z.boolean(),
          banner: z.string(),
          rows: z.array(z.object({ id: z.string(), html: z.string() })),
        }),
      },
    },
  },
  send: { summary: 'Upload a PDF from the page.', isPublic: true, body: upload, answers: { 303: toPage } },
  retry: act('Retry a conversion from the page.'),
  cancel: act('Cancel a conversion from the page.'),
} satisfies Record<string, RouteDescription>
