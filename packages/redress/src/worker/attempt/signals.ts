import { publicLine } from '../../core/failure/attempt-failed.ts'

/** Why an attempt is told to stop: the `reason` of `attempt.signal`. */

export class LeaseLost extends Error {
  override readonly name = 'LeaseLost'
  constructor() {
    super('the lease of this attempt was lost: another worker may have the job, and nothing written here will count')
  }
}

export class Cancelled extends Error {
  override readonly name = 'Cancelled'
  readonly actor: string
  readonly reason: string
  constructor(actor: string, reason: string) {
    super(`${actor || 'somebody'} cancelled the job: ${reason || 'no reason given'}`)
    this.actor = actor
    this.reason = reason
  }
}

export class ShuttingDown extends Error {
  override readonly name = 'ShuttingDown'
  constructor() {
    super('the worker is stopping and its time to finish is over')
  }
}

/** Thrown by `attempt.snooze`: the job goes back to the queue and nothing is spent. */
export class Snoozed extends Error {
  override readonly name = 'Snoozed'
  readonly delayMs: number
  readonly note: string | null
  constructor(delayMs: number, note: string | null) {
    super('the handler put the job back for later')
    this.delayMs = delayMs
    this.note = publicLine(note)
  }
}
