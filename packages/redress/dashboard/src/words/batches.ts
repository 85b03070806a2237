import type { BatchState } from '../../../src/core/batch.ts'
import type { Rollup } from '../../../src/core/policy/flow.ts'
import type { IconName } from '../parts/Icon.tsx'

interface StateWords {
  tone: 'good' | 'bad' | 'warn' | 'plain'
  icon: IconName
  meaning: string
}

export const BATCH_WORDS: Readonly<Record<BatchState, StateWords>> = {
  open: { tone: 'plain', icon: 'processing', meaning: 'A job waits or runs, or more jobs may be added.' },
  complete: { tone: 'good', icon: 'complete', meaning: 'Every job is complete.' },
  partial: { tone: 'warn', icon: 'open', meaning: 'Some jobs failed. Open the batch to review them.' },
  failed: { tone: 'bad', icon: 'failed', meaning: 'No job is complete, or its roll-up says that too many failed.' },
  cancelled: { tone: 'plain', icon: 'cancelled', meaning: 'No job is complete, and none failed.' },
  expired: { tone: 'plain', icon: 'snoozed', meaning: 'It was settled, and its time is over.' },
}

export const ROLLUP_WORDS: Readonly<Record<Rollup, string>> = {
  partial: 'Where some jobs are complete and some are not, the batch is partial.',
  'all-or-nothing': 'One job that does not complete makes the whole batch failed.',
  'any-permanent': 'One job that cannot be retried makes the batch failed; with used-up attempts only, it is partial.',
}
