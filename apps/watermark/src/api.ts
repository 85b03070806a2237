import { HTML } from '@redress/shared/routes'
import type { RouteDescription } from 'redress/http'
import { z } from 'zod'
import { assetSchema } from './assets/assets.ts'
import { cloneSchema, draftSchema, stopSchema } from './campaigns/drafts.ts'
import { campaignDetailSchema, campaignSchema } from './campaigns/view.ts'
import { detectionSchema } from './detection/detections.ts'

const own = 'Owners see only what is their own.'
const writers = 'Needs the role operator, or owner for what is their own.'
const recipients = 'For anyone who has the link.'
const upload = { types: ['multipart/form-data'] }
const page = z.object({ limit: z.string().optional(), cursor: z.string().optional() })
const nextCursor = z.string().nullable()
const toPage = { description: 'For a form: back to the page.' }
const changed = { 200: { description: 'The campaign.', json: campaignDetailSchema }, 303: toPage }
const made = { 201: { description: 'The new draft.', json: campaignDetailSchema }, 303: toPage }
const state = {
  200: {
    description: 'Parts of the page.',
    json: z.object({
      isLive: z.boolean().nullable(),
      parts: z.record(z.string(), z.string()),
      rows: z.array(z.object({ id: z.string(), html: z.string() })),
    }),
  },
}
const ids = z.object({ ids: z.string().optional().describe('the rows that the page shows, with commas between them') })
const preparing = {
  description: 'The copy is being made.',
  json: z.object({ state: z.literal('PROCESSING'), progress: z.number(), message: z.string() }),
  types: [HTML],
}
const file = { types: ['video/*', 'image/*'] }

/** How the OpenAPI document describes the routes of watermark. */
export const API = {
  addAsset: {
    summary: 'Upload a video or a picture: a form with the field `file`.',
    description: writers,
    body: upload,
    answers: { 201: { description: 'The asset.', json: assetSchema }, 303: toPage },
  },
  assets: {
    summary: 'List assets, the newest first.',
    description: own,
    query: page,
    answers: {
      200: { description: 'A page of assets.', json: z.object({ assets: z.array(assetSchema), nextCursor }) },
    },
  },
  thumbnail: {
    summary: 'The thumbnail of an asset.',
    description: own,
    answers: { 200: { description: 'The picture.', types: ['image/jpeg'] } },
  },
  campaigns: {
    summary: 'List campaigns, the newest first, as JSON or as a page.',
    description: own,
    query: page,
    answers: {
      200: {
        description: 'A page of campaigns.',
        json: z.object({ campaigns: z.array(campaignSchema), nextCursor }),
        types: [HTML],
      },
    },
  },
  campaign: {
    summary: 'One campaign with its recipients, as JSON or as a page.',
    description: own,
    answers: { 200: { description: 'The campaign.', json: campaignDetailSchema, types: [HTML] } },
  },
  addCampaign: {
    summary: 'Make a draft.',
    description: writers,
    body: { json: draftSchema, types: ['application/x-www-form-urlencoded'] },
    answers: made,
  },
  publish: {
    summary: 'Publish a draft: a copy is made for each recipient.',
    description: writers,
    answers: changed,
  },
  stop: { summary: 'Stop a campaign for good.', description: writers, body: { json: stopSchema }, answers: changed },
  clone: {
    summary: 'Make a draft of a campaign, with the same recipients.',
    description: writers,
    body: { json: cloneSchema },
    answers: made,
  },
  cloneForm: {
    summary: 'The page of a draft that is made of a campaign.',
    description: writers,
    answers: { 200: { description: 'The page.', types: [HTML] } },
  },
  retryCopy: { summary: 'Make a failed copy again.', description: writers, answers: changed },
  revoke: { summary: 'Revoke the link of a recipient.', description: writers, answers: changed },
  links: {
    summary: 'The links of all recipients.',
    description: own,
    answers: { 200: { description: 'One line for each recipient.', types: ['text/csv'] } },
  },
  detect: {
    summary: 'Find whose copy a file is: a form with the field `file`.',
    description: writers,
    body: upload,
    answers: {
      202: {
        description: 'The search.',
        json: z.object({ id: z.string(), type: z.string(), status: z.literal('queued') }),
      },
      303: toPage,
    },
  },
  detections: {
    summary: 'The searches of a campaign, as JSON or as a page.',
    description: own,
    answers: {
      200: { description: 'All of them.', json: z.object({ detections: z.array(detectionSchema) }), types: [HTML] },
    },
  },
  detection: {
    summary: 'One search, as JSON or as a page.',
    description: own,
    answers: { 200: { description: 'The search.', json: detectionSchema, types: [HTML] } },
  },
  campaignsState: {
    summary: 'What has changed on the page of campaigns.',
    description: own,
    query: ids,
    answers: state,
  },
  campaignState: {
    summary: 'What has changed on the page of a campaign.',
    description: own,
    query: ids,
    answers: state,
  },
  detectionState: { summary: 'What has changed on the page of a search.', description: own, answers: state },
  press: {
    summary: 'Begin a download from the page of a link.',
    description: recipients,
    isPublic: true,
    answers: { 202: preparing, 303: { description: 'To the file.' } },
  },
  download: {
    summary: 'The copy behind a link: the file for programs, a page for browsers. Takes a Range of bytes.',
    description: recipients,
    isPublic: true,
    answers: {
      200: { description: 'The file, or the page of the link.', types: [...file.types, HTML] },
      202: preparing,
      206: { description: 'A part of the file.', ...file },
    },
  },
} satisfies Record<string, RouteDescription>
