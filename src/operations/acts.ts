import { z } from 'zod'
import { actionsFor } from '../core/actions.ts'
import { viewJob } from '../core/view.ts'
import type { Submitted } from '../store/store.ts'
import { cancelJob, markJobFailed, retryJob } from './interventions.ts'
import { aboutJob, neededJob } from './needed-job.ts'
import { actFields, dryRunField, operation, ownerField, typeField } from './operation.ts'
import { intervenedSchema, submittedSchema } from './outputs/job.ts'

export const retry = operation('jobs.retry', {
  input: z.strictObject({
    ...actFields,
    owner: ownerField,
    input: z.unknown().optional().describe('another input, where a retry makes a new job'),
    newId: z.string().optional().describe('a UUID of your own for the new job, so that retrying twice makes one'),
    again: z.boolean().default(false).describe('retry again, even if it was already retried'),
  }),
  output: intervenedSchema,
  about: aboutJob,
  run: retryJob,
})

export const cancel = operation('jobs.cancel', {
  input: z.strictObject({ ...actFields, owner: ownerField }),
  output: intervenedSchema,
  about: aboutJob,
  run: cancelJob,
})

export const markFailed = operation('jobs.mark-failed', {
  input: z.strictObject(actFields),
  output: intervenedSchema,
  about: aboutJob,
  run: markJobFailed,
})

export const submit = operation('jobs.submit', {
  input: z.strictObject({
    type: typeField,
    input: z.unknown().default({}).describe('the input, as its type wants it; {} when left out'),
    owner: z.string().min(1).optional().describe('whose job it is'),
    priority: z.coerce.number().int().optional().describe('higher goes first; 0 when left out'),
    delay: z.union([z.string(), z.number()]).optional().describe(`not to begin before this long: '30s', '5m', '2h'`),
    dedupe: z.string().min(1).optional().describe('a key: one live job per key'),
    limitKey: z.string().min(1).optional().describe('whose turn it takes, where its type limits jobs per key'),
    id: z.string().optional().describe('a UUID of your own, so that submitting twice makes one job'),
    batch: z.string().min(1).optional().describe('id of an open batch to add it to'),
    actor: z.string().max(200).optional().describe('who hands it in: kept in the audit trail'),
    dryRun: dryRunField,
  }),
  output: submittedSchema,
  run: async ({ store, prepare }, { type, input, dryRun, actor, ...options }) => {
    const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined))
    const prepared = await prepare(type, input, given)
    // Programs submit without a name: their jobs have a history, and the trail is about people.
    const job = actor?.trim() ? { ...prepared, by: { actor, reason: 'submitted by hand' } } : prepared
    if (dryRun) return { isDone: false, did: `Nothing was done. This submits a job of type ${type}.`, job: null }
    const [submitted] = await store.submit({ jobs: [job] })
    const { id, isNew, status } = submitted as Submitted
    const row = await neededJob(store, id)
    const did = isNew ? `Submitted job ${id}.` : `Nothing was submitted: job ${id} is the same, and is ${status}.`
    return { isDone: isNew, did, job: viewJob(row, actionsFor(row)) }
  },
})
