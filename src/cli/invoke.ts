import type { Command, ProgramName } from './commands.ts'
import type { Details } from './help.ts'
import { COMMON_OPTIONS, type OptionSpec, type Parsed, readOptions } from './parse.ts'

/** A command that is no operation: each is a file of its own, loaded when it is called. */
export interface Program {
  options: readonly OptionSpec[]
  places: Details['places']
  examples: readonly string[]
  /** A number is the exit code; without one it is done. */
  run(command: Command, parsed: Parsed): Promise<void> | Promise<number>
}

const PROGRAMS: Readonly<Record<ProgramName, () => Promise<Program>>> = {
  start: async () => (await import('./start.ts')).start,
  worker: async () => (await import('./start.ts')).worker,
  gateway: async () => (await import('./gateway.ts')).gateway,
  events: async () => (await import('./events.ts')).events,
  doctor: async () => (await import('./doctor.ts')).doctor,
  migrate: async () => (await import('./migrate.ts')).migrate,
  copy: async () => (await import('./copy.ts')).copy,
  backup: async () => (await import('./backup.ts')).backup,
  restore: async () => (await import('./restore.ts')).restore,
  completion: async () => (await import('./completion.ts')).completion,
  'jobs-wait': async () => (await import('./wait.ts')).wait,
  'dead-letters-export': async () => (await import('./letter-export.ts')).letterExport,
  'policy-check': async () => (await import('./policy-file.ts')).check,
  'policy-simulate': async () => (await import('./policy-file.ts')).simulate,
  'proxx-validate': async () => (await import('./proxx.ts')).validate,
  'proxx-submit': async () => (await import('./proxx.ts')).submit,
  'proxx-watch': async () => (await import('./proxx-watch.ts')).watch,
  'proxx-retry': async () => (await import('./proxx.ts')).retry,
  'proxx-mark-failed': async () => (await import('./proxx.ts')).markFailed,
  'proxx-orphans': async () => (await import('./proxx.ts')).orphans,
  'proxx-verify': async () => (await import('./proxx.ts')).verify,
}

export async function programOf({ does }: Command): Promise<Program> {
  if ('program' in does) return PROGRAMS[does.program]()
  const { programOfOperation } = await import('./operate.ts')
  return programOfOperation(does.operation)
}

export async function invoke(command: Command, rest: readonly string[]): Promise<number> {
  const program = await programOf(command)
  const code = await program.run(command, readOptions(command, rest, [...program.options, ...COMMON_OPTIONS]))
  return code ?? 0
}
