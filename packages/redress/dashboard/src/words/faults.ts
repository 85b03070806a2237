import type { Fault } from '../../../src/core/failure/failure.ts'

/** Whose fault a failure is: in a word, and in a sentence for whoever was woken by it. */
export const FAULT_WORDS: Readonly<Record<Fault, { word: string; meaning: string }>> = {
  caller: { word: 'Caller', meaning: 'The input cannot be processed. A retry does not help.' },
  dependency: { word: 'Dependency', meaning: 'Another service failed. It was not the input.' },
  system: { word: 'System', meaning: 'The machine failed: disk, memory or network. It was not the input.' },
  code: { word: 'Code', meaning: 'The program that does the work has a defect.' },
  operator: { word: 'Operator', meaning: 'A person decided it.' },
  unknown: { word: 'Unknown', meaning: 'This failure has no code yet.' },
}
