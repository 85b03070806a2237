import type { OperationName } from '../../operations/catalog.ts'
import type { OutputOf } from '../../operations/table.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { accountRenderers } from './accounts.ts'
import { activityRenderers } from './activity.ts'
import { auditRenderers } from './audit.ts'
import { batchRenderers } from './batches.ts'
import { breakerRenderers } from './breakers.ts'
import { deadLetterRenderers } from './dead-letters.ts'
import { failureRenderers } from './failures.ts'
import { jobRenderers } from './jobs.ts'
import { noticeRenderers } from './notices.ts'
import { queueRenderers } from './queues.ts'
import { replayRenderers } from './replays.ts'
import { scheduleRenderers } from './schedules.ts'
import { typeRenderers } from './types.ts'
import { workerRenderers } from './workers.ts'

export interface Rendering {
  terminal: Terminal
  /** A line to paste, with the options that lead to the same store. */
  command(...words: string[]): string
  /** Where the pages are, as far as this command knows: 'http://127.0.0.1:7373'. */
  server: string
  /** For the person, beside the data. */
  hint(text: string): void
}

export type Renderers = { [Name in OperationName]: (output: OutputOf<Name>, rendering: Rendering) => string }

/** How the answer of each operation looks in a terminal. */
export const RENDERERS: Renderers = {
  ...jobRenderers,
  ...failureRenderers,
  ...deadLetterRenderers,
  ...replayRenderers,
  ...batchRenderers,
  ...noticeRenderers,
  ...queueRenderers,
  ...typeRenderers,
  ...workerRenderers,
  ...activityRenderers,
  ...auditRenderers,
  ...breakerRenderers,
  ...scheduleRenderers,
  ...accountRenderers,
}
