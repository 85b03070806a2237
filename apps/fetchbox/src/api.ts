import type { RouteDescription } from 'redress/http'
import { z } from 'zod'
import {
  JOB_STATUSES,
  listedSchema,
  purgeSchema,
  RESOURCE_STATUSES,
  resourceSchema,
  snapshotSchema,
} from './jobs/views.ts'

const PAGE_MAX = 1_000
const tenants = 'A tenant sees only its own jobs.'

const pageFields = {
  limit: z.coerce.number().int().min(1).max(PAGE_MAX).default(100),
  cursor: z.coerce.number().int().min(0).optional(),
}
export const JOBS_QUERY = z.strictObject({
  ...pageFields,
  type: z.string().min(1).optional(),
  tenant: z.string().min(1).optional(),
  status: z.enum(JOB_STATUSES).optional(),
})
export const RESOURCES_QUERY = z.strictObject({
  ...pageFields,
  status: z.enum(RESOURCE_STATUSES).optional(),
  format: z.enum(['json', 'jsonl']).optional(),
})

const accepted = z.object({
  id: z.string(),
  status: z.enum(JOB_STATUSES),
  resources: z.number(),
  location: z.string(),
})
const purge = { json: z.object({ id: z.string(), purge: purgeSchema }) }

/** How the OpenAPI document describes the routes of fetchbox. */
export const API = {
  submit: {
    summary: 'Fetch a list of URLs into the storage.',
    headers: {
      'Idempotency-Key': 'sending the same request twice with one key makes one job',
      'X-Fetchbox-Job-Type': 'the handler; `sample` when left out',
    },
    body: {
      json: z.strictObject({
        resources: z
          .array(
            z.strictObject({
              id: z.string().describe('unique within its job'),
              url: z.string(),
              headers: z.record(z.string(), z.string()).optional(),
              sha256: z.string().optional().describe('the hash that the content must have, in hex'),
            }),
          )
          .min(1)
          .max(PAGE_MAX),
        metadata: z.record(z.string(), z.unknown()).optional().describe('for the handler'),
      }),
    },
    answers: {
      200: { description: 'The job of an earlier request with the same key.', json: accepted },
      202: { description: 'The new job.', json: accepted },
    },
  },
  list: {
    summary: 'List jobs, newest first.',
    description: tenants,
    query: JOBS_QUERY,
    answers: {
      200: {
        description: 'A page of jobs.',
        json: z.object({ jobs: z.array(listedSchema), nextCursor: z.string().nullable() }),
      },
    },
  },
  job: {
    summary: 'One job.',
    description: tenants,
    answers: { 200: { description: 'The job.', json: snapshotSchema } },
  },
  resources: {
    summary: 'The resources of a job, in the order of its manifest.',
    description: tenants,
    query: RESOURCES_QUERY,
    answers: {
      200: {
        description: 'A page of resources, or all of them as lines of JSON.',
        json: z.object({ resources: z.array(resourceSchema), nextCursor: z.string().nullable() }),
        types: ['application/x-ndjson'],
      },
    },
  },
  content: {
    summary: 'The content of a resource. Takes a Range of bytes.',
    description: tenants,
    answers: { 200: { description: 'The content.', types: ['*/*'] }, 206: { description: 'A part.', types: ['*/*'] } },
  },
  purge: {
    summary: 'Remove everything that a job has stored.',
    description: tenants,
    answers: {
      200: { description: 'It is removed.', ...purge },
      202: { description: 'It will be removed.', ...purge },
    },
  },
  proxies: {
    summary: 'Which proxies are in use, and why the others are not.',
    description: 'Needs the role viewer.',
    answers: {
      200: {
        description: 'The proxies of this process.',
        json: z.object({ proxies: z.array(z.object({ name: z.string(), state: z.string() }).loose()) }),
      },
    },
  },
} satisfies Record<string, RouteDescription>
