import { z } from 'zod'
import { obstacleTo } from '../../core/dead-letter/replay.ts'
import { RedressError } from '../../core/errors.ts'
import { actionsFor } from '../../core/job/actions.ts'
import { isoTime, isoTimeOrNull } from '../../core/text/duration.ts'
import { anything, count, done, flag, id, name, status, text, time, timeOrNull } from '../../core/views/fields.ts'
import { failureSchema, jobSchema, viewFailure, viewJob } from '../../core/views/job.ts'
import type { StoredDeadLetter } from '../../store/contract/dead-letters.ts'
import type { Store } from '../../store/contract/store.ts'
import { actorFields, limitField, requireActorAndReason } from '../input-fields.ts'
import { neededJob } from '../jobs/needed-job.ts'
import { operation } from '../operation.ts'
import { actOnReplay, planInput, planMatching, replayPlannedSchema } from '../replays/replays.ts'
import { allField, filterFields, filterOf, offsetField, refuseAccidentalAll } from './filter.ts'
import { jobFromLetter } from './replay-letter.ts'

const LETTERS_MAX = 1_000
const PURGED_PER_STEP = 500

/** A dead letter (F15): the task, its failure, how often it was tried, and when it was set aside. */
const letterSchema = z.strictObject({
  offset: count,
  jobId: id,
  type: name,
  queue: name,
  owner: name.nullable(),
  batchId: id.nullable().describe('id of the batch of its job'),
  attempts: count.describe(
    'number of tries of the task: each attempt, and each further try of the stage that an attempt failed with',
  ),
  at: time,
  failure: failureSchema,
  input: anything,
  jobStatus: status.describe('status of its job'),
  replays: count,
  replayedAt: timeOrNull,
  replayedAs: id.nullable(),
  // Whether it can be replayed now, and why not.
  replay: z.strictObject({ allowed: flag, why: text }),
})
export type LetterView = z.infer<typeof letterSchema>

const letterListSchema = z.strictObject({
  deadLetters: z.array(letterSchema),
  nextAfter: count
    .nullable()
    .describe('pass it as after, with the same order, for the next page; null on the last page'),
})
export type LetterList = z.infer<typeof letterListSchema>

const listLetters = operation('dead-letters.list', {
  input: z.strictObject({
    ...filterFields,
    order: z.enum(['oldest', 'newest']).default('oldest').describe('sort order'),
    after: z.coerce.number().int().min(0).default(0).describe('only letters after this offset, in the sort order'),
    limit: limitField(LETTERS_MAX),
  }),
  output: letterListSchema,
  run: async ({ store }, { order, after, limit, ...given }) => {
    const filter = filterOf(given, await store.nowMs())
    const isNewestFirst = order === 'newest'
    const found = await store.deadLetters({ ...filter, isNewestFirst, afterOffset: after, limit: limit + 1 })
    const letters = found.slice(0, limit)
    return {
      deadLetters: letters.map(viewLetter),
      nextAfter: found.length > letters.length ? (letters.at(-1)?.offset ?? null) : null,
    }
  },
})

const showLetter = operation('dead-letters.show', {
  input: z.strictObject({ offset: offsetField }),
  output: letterSchema,
  run: async ({ store }, { offset }) => viewLetter(await neededLetter(store, offset)),
})

async function neededLetter(store: Store, offset: number): Promise<StoredDeadLetter> {
  const letter = await store.deadLetter({ offset })
  if (letter === null) throw new RedressError('LETTER_NOT_FOUND', `There is no dead letter ${offset}.`)
  return letter
}

const replayLetter = operation('dead-letters.replay', {
  input: z.strictObject({
    offset: offsetField,
    ...actorFields,
    input: z.unknown().optional().describe('new input for the new job'),
    again: z.boolean().default(false).describe('replay it even if it was already replayed'),
  }),
  output: z.strictObject({
    ...done,
    letter: letterSchema,
    job: jobSchema.nullable().describe('the new job; null if nothing was done'),
  }),
  run: async (context, { offset, actor, reason, dryRun, input, again }) => {
    const { store } = context
    const by = { actor, reason }
    const letter = await neededLetter(store, offset)
    requireActorAndReason(by, `dead letter ${offset}`)
    const isEdited = input !== undefined
    const replaysSeen = again ? letter.replays : 0
    refuseIf(obstacleTo(letter, replaysSeen, isEdited), letter)
    const given = isEdited ? input : JSON.parse(letter.payload)
    const job = await jobFromLetter(context, letter, { input: given, by, origin: { act: 'dead-letters.replay' } })
    const what = isEdited ? 'with the given input' : 'with the same input'
    if (dryRun) {
      const did = `Nothing was done. This makes a new job ${what}; job ${letter.jobId} stays failed.`
      return { isDone: false, did, letter: viewLetter(letter), job: null }
    }
    const replayed = await store.replayDeadLetter({ offset, replaysSeen, isEdited, job })
    refuseIf(replayed.skip, letter)
    const made = await neededJob(store, job.id)
    const did = `Made job ${made.id} from dead letter ${offset} ${what}; job ${letter.jobId} stays failed.`
    return {
      isDone: true,
      did,
      letter: viewLetter(await neededLetter(store, offset)),
      job: viewJob(made, actionsFor(made)),
    }
  },
})

/** Plans and starts in one call. */
const replayMatching = operation('dead-letters.replay-matching', {
  input: planInput,
  output: z.strictObject({ ...replayPlannedSchema.shape, isStarted: flag }),
  run: async (context, given) => {
    const planned = await planMatching(context, given)
    if (planned.replay === null) return { ...planned, isStarted: false }
    const { actor, reason } = given
    const { id } = planned.replay
    const { replay } = await actOnReplay(context.store, 'start', { id, actor, reason, dryRun: false })
    const skips = replay.skipped === 0 ? '' : ` ${replay.skipped} are skipped.`
    const did = `Started replay ${id}: ${replay.waiting} dead letters will become jobs.${skips}`
    return { ...planned, did, replay, isStarted: true }
  },
})

function refuseIf(obstacle: ReturnType<typeof obstacleTo>, { offset, jobId }: StoredDeadLetter): void {
  if (obstacle === null) return
  const action = obstacle.code === 'already-replayed' ? { action: 'Add `again` to replay it once more.' } : {}
  throw new RedressError('LETTER_NOT_REPLAYED', `Dead letter ${offset} was not replayed: ${obstacle.why}.`, {
    jobId,
    ...action,
  })
}

const purgeLetters = operation('dead-letters.purge', {
  input: z.strictObject({
    offset: offsetField.optional().describe('offset of one dead letter'),
    ...filterFields,
    all: allField,
    ...actorFields,
  }),
  output: z.strictObject({
    ...done,
    letters: count.describe('how many were purged, or would be with dryRun'),
    byCause: z.array(z.strictObject({ type: name, code: name, letters: count })),
  }),
  run: async ({ store }, { offset, all, actor, reason, dryRun, ...given }) => {
    if (offset !== undefined) await neededLetter(store, offset)
    requireActorAndReason({ actor, reason }, offset === undefined ? 'dead letters' : `dead letter ${offset}`)
    const filter = { ...filterOf(given, await store.nowMs()), ...(offset !== undefined && { offset }) }
    refuseAccidentalAll(filter, all, 'purge')
    const { letters, lastOffset, byCause } = await store.countDeadLetters(filter)
    const counted = `${letters} dead ${letters === 1 ? 'letter' : 'letters'}`
    if (dryRun || letters === 0) {
      const did = `Nothing was done. ${letters === 0 ? 'No dead letter matches.' : `This purges ${counted}; their jobs stay failed.`}`
      return { isDone: false, did, letters, byCause }
    }
    let purged = 0
    // Letters that arrive during the purge were not in its preview.
    for (let after: number | null = 0; after !== null; ) {
      const step: { purged: number; cursor: number | null } = await store
        .purgeDeadLetters({
          ...{ actor, reason, filter },
          ...{ afterOffset: after, upToOffset: lastOffset, limit: PURGED_PER_STEP },
        })
        .catch((error: unknown) => {
          throw purged === 0 ? error : stoppedAt(purged, letters, error)
        })
      purged += step.purged
      after = step.cursor
    }
    const did = `Purged ${purged} dead ${purged === 1 ? 'letter' : 'letters'}; their jobs stay failed.`
    return { isDone: purged > 0, did, letters: purged, byCause }
  },
})

/** Each step is durable: letters purged before the error stay purged. */
function stoppedAt(purged: number, of: number, cause: unknown): RedressError {
  const code = cause instanceof RedressError ? cause.code : 'STORE_FAILED'
  return new RedressError(
    'PARTLY_DONE',
    `${purged} of ${of} dead letters were purged, then an error stopped it: ${code}.`,
    {
      cause,
      action: 'Run it again for the rest.',
    },
  )
}

function viewLetter(letter: StoredDeadLetter): LetterView {
  const { offset, jobId, type, queue, owner, batchId, attempts, atMs, failure, payload } = letter
  const { status, replays, replayedAtMs, replayedAs } = letter
  const obstacle = obstacleTo(letter, 0, false)
  return {
    offset,
    jobId,
    type,
    queue,
    owner,
    batchId,
    attempts,
    at: isoTime(atMs),
    failure: viewFailure(failure),
    input: JSON.parse(payload),
    jobStatus: status,
    replays,
    replayedAt: isoTimeOrNull(replayedAtMs),
    replayedAs,
    replay: { allowed: obstacle === null, why: obstacle?.why ?? 'makes a new job; this one stays failed' },
  }
}

export const deadLetterOperations = {
  'dead-letters.list': listLetters,
  'dead-letters.show': showLetter,
  'dead-letters.replay': replayLetter,
  'dead-letters.replay-matching': replayMatching,
  'dead-letters.purge': purgeLetters,
}
