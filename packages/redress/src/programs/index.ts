/** Child processes with limits, whose failures can be classified: `redress/programs`. */
export type { ProgramLimits, ProgramOptions } from './options.ts'
export { ProgramFailed, type ProgramFailure } from './program-failed.ts'
export { type ProgramResult, runProgram } from './run.ts'
