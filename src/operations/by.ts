import { RedressError } from '../core/errors.ts'
import type { By } from '../store/store.ts'

const ACTOR_CHARS_MAX = 200
const REASON_CHARS_MAX = 2_000

/** Who acts, and why, is kept for ever: both must be said. `target` is what it is done to: 'job 17', 'queue mail'. */
export function checkBy({ actor, reason }: By, target: string): void {
  if (actor.trim() === '') throw new RedressError('REASON_REQUIRED', `Nobody is named as doing this to ${target}.`)
  if (reason.trim() === '') throw new RedressError('REASON_REQUIRED', `No reason is given for doing this to ${target}.`)
  if (actor.length > ACTOR_CHARS_MAX || reason.length > REASON_CHARS_MAX) {
    const limits = `an actor has at most ${ACTOR_CHARS_MAX} characters, and a reason ${REASON_CHARS_MAX}`
    throw new RedressError('OPTION_INVALID', `Too long: ${limits}.`)
  }
}
