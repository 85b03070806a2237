import { z } from 'zod'
import type { LetterView } from '../../core/view-letter.ts'
import type { LetterList, LetterReplayed, LettersPurged } from '../dead-letters.ts'
import { failureSchema } from './history.ts'
import { jobSchema, statusSchema } from './job.ts'
import { anything, count, done, exactly, id, name, text, time, timeOrNull, yes } from './schema.ts'

export const letterSchema = exactly<LetterView>()(
  z.strictObject({
    offset: count,
    jobId: id,
    type: name,
    queue: name,
    owner: name.nullable(),
    batchId: id.nullable().describe('of the batch that its job was made in'),
    attempts: count.describe(
      'number of tries of the task: each attempt, and each further try of the stage that an attempt failed with',
    ),
    at: time,
    failure: failureSchema,
    input: anything,
    jobStatus: statusSchema.describe('of the job that it is about'),
    replays: count,
    replayedAt: timeOrNull,
    replayedAs: id.nullable(),
    replay: z.strictObject({ allowed: yes, why: text }),
  }),
)

export const letterListSchema = exactly<LetterList>()(
  z.strictObject({
    deadLetters: z.array(letterSchema),
    nextAfter: count.nullable().describe('give it as after to go on; null when nothing is left'),
  }),
)

export const letterReplayedSchema = exactly<LetterReplayed>()(
  z.strictObject({ ...done, letter: letterSchema, job: jobSchema.nullable() }),
)

export const lettersPurgedSchema = exactly<LettersPurged>()(
  z.strictObject({
    ...done,
    letters: count,
    byCause: z.array(z.strictObject({ type: name, code: name, letters: count })),
  }),
)
