import { z } from 'zod'
import { name, text } from '../views/fields.ts'

/** The stored record of why an attempt, or a submission, did not succeed. */

export const PHASES = ['pre_dispatch', 'dispatch', 'execution', 'verification'] as const
export type Phase = (typeof PHASES)[number]

const LAYERS = ['submission', 'coordination', 'worker'] as const
export type Layer = (typeof LAYERS)[number]

/** The layer that must account for a failure of each phase. It is never set by hand, so every failure has one. */
export const LAYER_OF_PHASE: Readonly<Record<Phase, Layer>> = {
  pre_dispatch: 'submission',
  dispatch: 'coordination',
  execution: 'worker',
  verification: 'worker',
}

/** Who caused it: the input, a service that is called, this machine, the handler's code, or an operator. */
export const FAULTS = ['caller', 'dependency', 'system', 'code', 'operator', 'unknown'] as const
export type Fault = (typeof FAULTS)[number]

/** One link of an error's `cause` chain, outermost first; redacted and bounded. */
const causeSchema = z.strictObject({ name: text, message: text, code: text.exactOptional() })
export type CauseLink = z.infer<typeof causeSchema>

export const failureFields = {
  phase: z.enum(PHASES),
  layer: z.enum(LAYERS).describe('the layer that must account for it'),
  code: name,
  fault: z.enum(FAULTS),
  // Both messages are one line.
  message: text.describe('public; shown when nothing more will happen by itself'),
  waiting: text.describe('public; shown while a retry is waiting'),
  detail: text.describe('what was really thrown; redacted, for operators'),
  // Exit code, signal, HTTP status, stderr tail, the author's own context: redacted and bounded.
  context: z.record(text, z.unknown()),
  causes: z.array(causeSchema),
  rule: text.describe('the rule that chose the code'),
  // Groups failures of the same cause; see fingerprint.ts.
  fingerprint: text,
}
/** A failure as it was captured and classified. */
export type Failure = z.infer<z.ZodObject<typeof failureFields>>
