import type { z } from 'zod'
import { RedressError } from '../core/errors.ts'
import { nearest } from '../core/text/names.ts'
import { accountOperations } from './accounts/accounts.ts'
import { tokenOperations } from './accounts/tokens.ts'
import { activityOperations } from './activity/activity.ts'
import { auditOperations } from './audit/audit.ts'
import { batchOperations } from './batches/batches.ts'
import { breakerOperations } from './breakers/breakers.ts'
import type { CatalogEntry, OperationName } from './catalog.ts'
import { deadLetterOperations } from './dead-letters/dead-letters.ts'
import { failureOperations } from './failures/failures.ts'
import { jobOperations } from './jobs/jobs.ts'
import { noticeOperations } from './notices/notices.ts'
import type { Operation } from './operation.ts'
import { queueOperations } from './queues/queues.ts'
import { replayOperations } from './replays/replays.ts'
import { scheduleOperations } from './schedules/schedules.ts'
import { typeOperations } from './types/types.ts'
import { workerOperations } from './workers/workers.ts'

export { perform } from './operation.ts'

/** Every entry of the catalogue with its input, its output and the function that runs it. */
export const OPERATIONS = {
  ...jobOperations,
  ...failureOperations,
  ...deadLetterOperations,
  ...replayOperations,
  ...batchOperations,
  ...noticeOperations,
  ...queueOperations,
  ...typeOperations,
  ...workerOperations,
  ...activityOperations,
  ...auditOperations,
  ...breakerOperations,
  ...scheduleOperations,
  ...accountOperations,
  ...tokenOperations,
} satisfies { [Name in OperationName]: Pick<Operation, 'name' | 'input' | keyof CatalogEntry> }

/** A program in JavaScript can give a name that does not exist. */
export function operationNamed(name: OperationName): Operation {
  if (Object.hasOwn(OPERATIONS, name)) return OPERATIONS[name] as Operation
  const meant = nearest(String(name), Object.keys(OPERATIONS))
  throw new RedressError('OPTION_INVALID', `There is no operation ${JSON.stringify(name)}.`, {
    action: meant === null ? 'The reference of operations lists all names.' : `Did you mean ${JSON.stringify(meant)}?`,
  })
}

type Table = typeof OPERATIONS
/** The input of an operation: `OperationInput<'jobs.retry'>`. */
export type InputOf<Name extends OperationName> = Given<z.input<Table[Name]['input']>, z.output<Table[Name]['input']>>
/** A number may also be given as text, as the doors do and as `nextCursor` is. */
type Given<Input, Output> = {
  [Field in keyof Input]: unknown extends Input[Field] ? TextOr<Output[Field & keyof Output]> : Input[Field]
}
type TextOr<Value> = unknown extends Value ? unknown : Value | string
/** The answer of an operation: `OperationOutput<'jobs.retry'>`. */
export type OutputOf<Name extends OperationName> = Awaited<ReturnType<Table[Name]['run']>>
