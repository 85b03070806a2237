import type { Explanation } from '../../../../src/core/explain/explain.ts'
import type { FailureView } from '../../../../src/core/views/job.ts'

/** The sentences of a verdict without those that the page shows as marks or links; what went wrong comes first. */
export function plainVerdict({ verdict, status, held }: Explanation, failure: FailureView | null): string[] {
  const shown = new Set([`${status.toUpperCase()}.`, `Fault: ${failure?.fault}.`])
  const holds = held.map(({ by, name }) => (by === 'workers' ? `No worker runs ${name}: ` : `Held by ${by} ${name}: `))
  const left = verdict.filter((one) => !shown.has(one) && !holds.some((hold) => one.startsWith(hold)))
  const isMain = (sentence: string): boolean => failure !== null && sentence.startsWith(`${failure.code}: `)
  return [...left.filter(isMain), ...left.filter((sentence) => !isMain(sentence))]
}
