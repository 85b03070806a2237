import type { OperationName } from '../operations/catalog.ts'
import type { RetryQuestion, RetryRefusal } from '../operations/jobs/admit-retry.ts'
import type { InputOf, OutputOf } from '../operations/table.ts'
import type { Clock } from '../runtime/clock.ts'
import type { MakeId } from '../runtime/id.ts'
import type { Log } from '../runtime/log.ts'
import type { NewJob, Store } from '../store/contract/store.ts'
import type { SubmitOptions } from './jobs/job-type.ts'

/** The app as its parts (batches, schedules, channels, ...) see it. */
export interface AppHost {
  store(): Promise<Store>
  readonly clock: Clock
  readonly log: Log
  readonly makeId: MakeId
  /** Checks a submission in every way that needs no store. */
  prepare(type: string, input: unknown, options: SubmitOptions): Promise<NewJob>
  /** The job types that this program implements. */
  types(): readonly string[]
  /** Asks a type's own `admitRetry`; null: nothing against it, or not known here. */
  admitRetry(question: RetryQuestion): Promise<RetryRefusal | null>
  perform<Name extends OperationName>(name: Name, input: InputOf<Name>): Promise<OutputOf<Name>>
}
