import type { Fault } from '../../../../src/core/failure/failure.ts'

const STEPS: Readonly<Record<Fault, string>> = {
  caller: 'Tell whoever handed it in what is wrong with it. A retry with the same input fails again.',
  dependency: 'See whether the other service is back, then retry or replay. A breaker keeps more of them from failing.',
  system: 'Mend the machine first: disk, memory or network. Then retry or replay.',
  code: 'Mend the program and deploy it, then resolve the group and retry or replay.',
  operator: 'Ask whoever decided it; the audit trail has the name and the reason.',
  unknown: 'Read what was thrown, and give it a code, so that the next one is handled by itself.',
}

/** What helps, going by whose fault it is. */
export const nextStep = ({ fault }: { fault: Fault }): string => STEPS[fault]
