/** The stored record of why an attempt, or a submission, did not succeed. */

export const STAGES = ['pre_dispatch', 'dispatch', 'execution', 'verification'] as const
export type Stage = (typeof STAGES)[number]

export const OWNERS = ['submission', 'coordination', 'worker'] as const
export type Owner = (typeof OWNERS)[number]

/** Who must account for a failure of each stage. Nobody sets the owner by hand: a failure cannot be unowned. */
export const OWNER_OF_STAGE: Readonly<Record<Stage, Owner>> = {
  pre_dispatch: 'submission',
  dispatch: 'coordination',
  execution: 'worker',
  verification: 'worker',
}

/** Whose doing it is: the input, something we call, our own machine, the handler's code, whoever runs it or decided so. */
export const FAULTS = ['caller', 'dependency', 'system', 'code', 'operator', 'unknown'] as const
export type Fault = (typeof FAULTS)[number]

/** One link of an error's `cause` chain, outermost first; redacted and bounded. */
export interface CauseLink {
  name: string
  message: string
  code?: string
}

export interface Failure {
  stage: Stage
  owner: Owner
  code: string
  fault: Fault
  /** Public, one line: shown when nothing more will happen by itself. */
  message: string
  /** Public, one line: shown while a retry is waiting. */
  waiting: string
  /** What was really thrown: redacted and bounded, for operators only. */
  detail: string
  /** Structured facts (exit code, signal, HTTP status, stderr tail, the author's own context), redacted and bounded. */
  context: Record<string, unknown>
  causes: CauseLink[]
  /** The classification rule that chose the code, in words. */
  rule: string
  /** Groups failures of the same cause; see fingerprint.ts. */
  fingerprint: string
}
