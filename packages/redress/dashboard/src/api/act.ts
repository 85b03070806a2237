import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import type { OperationName } from '../../../src/operations/catalog.ts'

/** What a person may set before they confirm. Empty means: left out. */
export interface ActField {
  name: string
  label: string
  kind: 'text' | 'number' | 'json' | 'choice'
  help?: string
  initial?: string
  choices?: readonly { value: string; label: string }[]
  isRequired?: boolean
}

/** An operation that changes something, about to be confirmed. */
export interface PendingAct {
  name: OperationName
  /** Without `reason` and `dryRun`, which the dialog adds. */
  input: Readonly<Record<string, unknown>>
  /** 'Retry this job' */
  title: string
  /** What the button says: 'Retry' */
  verb: string
  /** It ends something: the button says so by its colour, too. */
  isDangerous?: boolean
  fields?: readonly ActField[]
  /** False where the operation keeps no reason. */
  wantsReason?: boolean
  /** What the choice means, above the fields. */
  explain?: ComponentChildren
  onDone?: (answer: unknown) => void
}

export const pendingAct = signal<PendingAct | null>(null)

/** Opens the dialog: it previews what the act would do, asks for a reason, does it and says what was done. */
export const ask = (act: PendingAct): void => {
  pendingAct.value = act
}
