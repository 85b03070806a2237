import { z } from 'zod'
import { actionsFor } from '../core/actions.ts'
import { RedressError } from '../core/errors.ts'
import { obstacleTo } from '../core/replay-obstacle.ts'
import { type JobView, viewJob } from '../core/view.ts'
import { type LetterView, viewLetter } from '../core/view-letter.ts'
import type { LetterCounts, StoredDeadLetter } from '../store/dead-letters.ts'
import type { Store } from '../store/store.ts'
import { checkBy } from './by.ts'
import { allField, filterFields, filterOf, offsetField, refuseAccidentalAll } from './letter-filter.ts'
import { neededJob } from './needed-job.ts'
import { actFields, limitField, operation } from './operation.ts'
import { letterListSchema, letterReplayedSchema, letterSchema, lettersPurgedSchema } from './outputs/letter.ts'
import { jobFromLetter } from './replay-letter.ts'

const LETTERS_MAX = 1_000
const PURGED_PER_STEP = 500

export interface LetterList {
  deadLetters: LetterView[]
  /** Give it as `after`, with the same order, for those that follow; null when these were the last. */
  nextAfter: number | null
}

export const listLetters = operation('dead-letters.list', {
  input: z.strictObject({
    ...filterFields,
    order: z.enum(['oldest', 'newest']).default('oldest').describe('which come first'),
    after: z.coerce
      .number()
      .int()
      .min(0)
      .default(0)
      .describe('only letters that come after this offset in their order'),
    limit: limitField(LETTERS_MAX),
  }),
  output: letterListSchema,
  run: async ({ store }, { order, after, limit, ...given }): Promise<LetterList> => {
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

export const showLetter = operation('dead-letters.show', {
  input: z.strictObject({ offset: offsetField }),
  output: letterSchema,
  run: async ({ store }, { offset }) => viewLetter(await neededLetter(store, offset)),
})

async function neededLetter(store: Store, offset: number): Promise<StoredDeadLetter> {
  const letter = await store.deadLetter({ offset })
  if (letter === null) throw new RedressError('LETTER_NOT_FOUND', `There is no dead letter ${offset}.`)
  return letter
}

const { id: _, ...byFields } = actFields

export interface LetterReplayed {
  isDone: boolean
  did: string
  letter: LetterView
  /** The new one; null when nothing was done. */
  job: JobView | null
}

export const replayLetter = operation('dead-letters.replay', {
  input: z.strictObject({
    offset: offsetField,
    ...byFields,
    input: z.unknown().optional().describe('another input for the new job'),
    again: z.boolean().default(false).describe('also if it was replayed already'),
  }),
  output: letterReplayedSchema,
  run: async (context, { offset, actor, reason, dryRun, input, again }): Promise<LetterReplayed> => {
    const { store } = context
    const by = { actor, reason }
    const letter = await neededLetter(store, offset)
    checkBy(by, `dead letter ${offset}`)
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

function refuseIf(obstacle: ReturnType<typeof obstacleTo>, { offset, jobId }: StoredDeadLetter): void {
  if (obstacle === null) return
  const action = obstacle.code === 'already-replayed' ? { action: 'Add `again` to replay it once more.' } : {}
  throw new RedressError('LETTER_NOT_REPLAYED', `Dead letter ${offset} was not replayed: ${obstacle.why}.`, {
    jobId,
    ...action,
  })
}

export interface LettersPurged {
  isDone: boolean
  did: string
  /** How many were purged, or with `dryRun` would be. */
  letters: number
  byCause: LetterCounts['byCause']
}

export const purgeLetters = operation('dead-letters.purge', {
  input: z.strictObject({
    offset: offsetField.optional().describe('offset of one dead letter'),
    ...filterFields,
    all: allField,
    ...byFields,
  }),
  output: lettersPurgedSchema,
  run: async ({ store }, { offset, all, actor, reason, dryRun, ...given }): Promise<LettersPurged> => {
    if (offset !== undefined) await neededLetter(store, offset)
    checkBy({ actor, reason }, offset === undefined ? 'dead letters' : `dead letter ${offset}`)
    const filter = { ...filterOf(given, await store.nowMs()), ...(offset !== undefined && { offset }) }
    refuseAccidentalAll(filter, all, 'purge')
    const { letters, lastOffset, byCause } = await store.countDeadLetters(filter)
    const counted = `${letters} dead ${letters === 1 ? 'letter' : 'letters'}`
    if (dryRun || letters === 0) {
      const did = `Nothing was done. ${letters === 0 ? 'No dead letter is like that.' : `This purges ${counted} for good; their jobs stay failed.`}`
      return { isDone: false, did, letters, byCause }
    }
    let purged = 0
    // What comes meanwhile has not been looked at by whoever does this.
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
    const did = `Purged ${purged} dead ${purged === 1 ? 'letter' : 'letters'} for good; their jobs stay failed.`
    return { isDone: purged > 0, did, letters: purged, byCause }
  },
})

/** Each step is durable by itself: what was purged before the trouble is purged. */
function stoppedAt(purged: number, of: number, cause: unknown): RedressError {
  const code = cause instanceof RedressError ? cause.code : 'STORE_FAILED'
  return new RedressError('PARTLY_DONE', `${purged} of ${of} dead letters were purged, and then it ended: ${code}.`, {
    cause,
    action: 'Do it again for the rest.',
  })
}
