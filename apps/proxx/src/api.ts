import { HTML } from '@redress/shared/routes'
import type { RouteDescription } from 'redress/http'
import { z } from 'zod'
import { jobSpec } from './spec/spec.ts'
import { proxxJob } from './view.ts'

const own = 'Owners see only their own jobs.'
const operators = 'Needs the role operator.'
const staff = 'Not for owners.'
const newId = z.object({
  id: z.string().optional().describe('a UUID of your own, so that sending twice makes one job'),
})
const page = {
  description: 'A page of jobs.',
  json: z.object({ jobs: z.array(proxxJob), nextCursor: z.string().nullable() }),
}
const job = { description: 'The job.', json: proxxJob }
const state = { description: 'Parts of the page that have changed.', json: z.object({ isLive: z.boolean() }).loose() }
const refusedJob = {
  description: 'The spec was refused: the job is recorded as failed.',
  json: z.object({
    error: z.object({ code: z.string(), message: z.string(), jobId: z.string() }).loose(),
    job: proxxJob,
  }),
}
const made = {
  200: { ...job, description: 'The job that was made with this id before.' },
  201: job,
  422: refusedJob,
}
const filters = z.object({
  status: z.enum(['pending', 'processing', 'complete', 'failed']).optional(),
  code: z.string().optional().describe('only jobs that failed with this code'),
  cursor: z.string().optional(),
})

/** How the OpenAPI document describes the routes of proxx. */
export const API = {
  specSchema: {
    summary: 'The JSON Schema of a spec.',
    isPublic: true,
    answers: { 200: { description: 'The schema.', types: ['application/schema+json'] } },
  },
  profiles: {
    summary: 'The profiles that a spec can name.',
    isPublic: true,
    answers: {
      200: {
        description: 'All of them.',
        json: z.object({
          profiles: z.array(z.object({ name: z.string(), version: z.number(), title: z.string() }).loose()),
        }),
      },
    },
  },
  submit: {
    summary: 'Submit a spec. One that is refused is recorded as a failed job.',
    query: newId,
    body: { json: jobSpec },
    answers: made,
  },
  validate: {
    summary: 'Check a spec and all that it names. Records nothing.',
    body: { json: jobSpec },
    answers: {
      200: {
        description: 'What is wrong with it, and what it would make.',
        json: z.object({
          valid: z.boolean(),
          problems: z.array(z.object({ code: z.string(), path: z.string(), message: z.string() })),
          outputs: z.array(z.string()),
          estimateBytes: z.number().nullable(),
          freeBytes: z.number().nullable(),
        }),
      },
    },
  },
  list: {
    summary: 'List jobs, newest first.',
    description: own,
    query: filters.extend({ limit: z.string().optional().describe('at most 100') }),
    answers: { 200: page },
  },
  orphans: {
    summary: 'The jobs whose worker is silent, and that wait for a person.',
    description: staff,
    answers: { 200: { description: 'The orphans.', json: z.object({ jobs: z.array(proxxJob) }) } },
  },
  job: { summary: 'One job, as JSON or as a page.', description: own, answers: { 200: { ...job, types: [HTML] } } },
  jobFile: {
    summary: 'The file job.json of a job, as it is kept beside its outputs.',
    description: staff,
    answers: { 200: { description: 'The file.', json: proxxJob } },
  },
  stderr: {
    summary: 'What the programs of a job wrote to standard error.',
    description: staff,
    answers: { 200: { description: 'The log.', types: ['text/plain'] } },
  },
  retry: {
    summary: 'Make a new job from a failed one, with the same spec or another.',
    description: own,
    query: newId,
    body: {
      json: z.object({
        reason: z.string(),
        spec: jobSpec.optional(),
        again: z.boolean().optional().describe('also if it was retried already'),
      }),
    },
    answers: made,
  },
  markFailed: {
    summary: 'Say of a job whose worker is gone that it has failed.',
    description: operators,
    body: { json: z.object({ reason: z.string() }) },
    answers: { 200: job },
  },
  verify: {
    summary: 'Verify again what a complete job delivered.',
    description: operators,
    answers: {
      200: {
        description: 'A verdict on each output.',
        json: z.object({
          outputs: z.array(
            z.object({
              clip: z.number(),
              path: z.string(),
              isGood: z.boolean(),
              check: z.string().nullable(),
              message: z.string(),
            }),
          ),
        }),
      },
    },
  },
  home: {
    summary: 'The orphans and the jobs, as JSON or as a page.',
    description: own,
    query: filters,
    answers: {
      200: {
        description: 'Orphans and jobs.',
        json: z.object({ orphans: z.array(proxxJob), jobs: z.array(proxxJob), nextCursor: z.string().nullable() }),
        types: [HTML],
      },
    },
  },
  homeState: { summary: 'What has changed on the page of jobs.', description: own, answers: { 200: state } },
  jobState: { summary: 'What has changed on the page of a job.', description: own, answers: { 200: state } },
  newJob: {
    summary: 'The page that submits a job.',
    answers: { 200: { description: 'The page.', types: [HTML] } },
  },
} satisfies Record<string, RouteDescription>
