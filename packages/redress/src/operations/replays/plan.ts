import type { z } from 'zod'
import { obstacleTo, perSecondOf, type ReplayPlan, type Skip, type SkipCode } from '../../core/dead-letter/replay.ts'
import { RedressError } from '../../core/errors.ts'
import type { LetterFilter, StoredDeadLetter } from '../../store/contract/dead-letters.ts'
import type { NewReplayItem, StoredReplay } from '../../store/contract/replays.ts'
import type { ActorAndReason } from '../../store/contract/store.ts'
import { prepareItem } from '../dead-letters/replay-letter.ts'
import type { Context } from '../operation.ts'
import type { planInput, ReplayPlanned } from './replays.ts'

/** The input of `replays.plan`, with its filter fields already read. */
export type Planning = Pick<
  z.output<typeof planInput>,
  'actor' | 'reason' | 'patch' | 'rate' | 'canary' | 'canaryFailures' | 'again' | 'dryRun'
> & { filter: LetterFilter }

export type Planned = Omit<ReplayPlanned, 'replay'> & { replay: StoredReplay | null }

/** A larger selection is a mistake, or better done in parts. */
const LETTERS_MAX = 100_000
const LETTERS_PER_STEP = 200

/** Fixes the selection, with the current obstacle of each letter. With `dryRun` nothing is stored. */
export async function planReplay(context: Context, planning: Planning): Promise<Planned> {
  const { store } = context
  const { filter, actor, reason, again, dryRun } = planning
  const patch = planning.patch === undefined ? null : JSON.stringify(planning.patch)
  const plan = planOf(planning)
  const { letters: matching, lastOffset } = await store.countDeadLetters(filter)
  if (matching > LETTERS_MAX) {
    throw new RedressError('OPTION_INVALID', `${matching} letters match; one replay takes at most ${LETTERS_MAX}.`, {
      action: 'Narrow the filter, for example with since and until.',
    })
  }
  const id = context.makeId()
  const summary = new Summary()
  let isDrafted = false
  const keep = async (items: NewReplayItem[], isLast: boolean) => {
    if (dryRun || (isLast && summary.willRun === 0 && !isDrafted)) return
    if (!isDrafted) await store.draftReplay({ id, selection: filter, patch, actor, reason, ...plan })
    isDrafted = true
    await store.addReplayItems({ id, items, isLast })
  }
  for (let after = 0, isLast = false; !isLast; ) {
    const page = await store.deadLetters({ ...filter, afterOffset: after, limit: LETTERS_PER_STEP })
    // Letters that arrive during planning are not part of it.
    const letters = page.filter(({ offset }) => offset <= lastOffset)
    after = page.at(-1)?.offset ?? after
    isLast = page.length < LETTERS_PER_STEP || after >= lastOffset
    const items: NewReplayItem[] = []
    for (const letter of letters) {
      const { offset, type, replays } = letter
      const replaysSeen = again ? replays : 0
      const job = context.makeId()
      const by = { actor, reason }
      const skip = await obstacleNow(context, letter, { replaysSeen, patch, by, replay: id, id: job })
      summary.add(letter, skip, context.codesOf(type) !== undefined)
      items.push({ offset, type, replaysSeen, job, skip })
    }
    await keep(items, isLast)
  }
  const replay = isDrafted ? await store.replay({ id }) : null
  return summary.toAnswer(replay, dryRun)
}

async function obstacleNow(
  context: Context,
  letter: StoredDeadLetter,
  {
    replaysSeen,
    ...making
  }: { replaysSeen: number; patch: string | null; by: ActorAndReason; replay: string; id: string },
): Promise<Skip | null> {
  const obstacle = obstacleTo(letter, replaysSeen, making.patch !== null)
  if (obstacle !== null) return obstacle
  const prepared = await prepareItem(context, letter, making)
  return 'skip' in prepared ? prepared.skip : null
}

function planOf({ rate, canary, canaryFailures }: Planning): ReplayPlan {
  if (canaryFailures > 0 && canaryFailures >= canary) {
    throw new RedressError('OPTION_INVALID', `canaryFailures: must be less than canary (${canary}).`)
  }
  return { canary, canaryFailuresMax: canaryFailures, perSecond: rate === undefined ? null : perSecondOf(rate) }
}

class Summary {
  willRun = 0
  readonly #skipped = new Map<SkipCode, ReplayPlanned['skipped'][number]>()
  readonly #unchecked = new Map<string, number>()

  add({ offset, type }: StoredDeadLetter, skip: Skip | null, isKnown: boolean): void {
    if (skip === null) {
      this.willRun++
      if (!isKnown) this.#unchecked.set(type, (this.#unchecked.get(type) ?? 0) + 1)
      return
    }
    const { code, why } = skip
    const before = this.#skipped.get(code) ?? { code, letters: 0, example: { offset, why } }
    this.#skipped.set(code, { ...before, letters: before.letters + 1 })
  }

  toAnswer(replay: StoredReplay | null, dryRun: boolean): Planned {
    const { willRun } = this
    const skipped = [...this.#skipped.values()].sort((a, b) => b.letters - a.letters)
    const skips = skipped.reduce((sum, { letters }) => sum + letters, 0)
    const counts = `${willRun} will run, ${skips} will be skipped`
    return {
      isDone: replay !== null,
      did: sentence(replay, counts, dryRun, willRun + skips),
      replay,
      willRun,
      skipped,
      unchecked: [...this.#unchecked].map(([type, letters]) => ({ type, letters })),
    }
  }
}

function sentence(replay: StoredReplay | null, counts: string, dryRun: boolean, total: number): string {
  if (total === 0) return 'Nothing was planned: no dead letter matches.'
  if (replay !== null) return `Planned replay ${replay.id}: ${counts}. It runs when it is started.`
  return dryRun ? `Nothing was done. Of ${total}, ${counts}.` : `Nothing was planned: ${counts}.`
}
