import type { Command, ProgramName } from './language/commands.ts'
import type { Details } from './language/help.ts'
import type { Parsed } from './language/parse.ts'

/** The implementation of a command, with the options and arguments that it takes. */
export interface Program extends Details {
  /** A number is the exit code; without one it is 0. */
  run(command: Command, parsed: Parsed): Promise<void> | Promise<number>
}

/** The programs of the CLI itself, each loaded when it is called. */
const PROGRAMS: Readonly<Record<ProgramName, () => Promise<Program>>> = {
  start: async () => (await import('./commands/start.ts')).start,
  worker: async () => (await import('./commands/start.ts')).worker,
  events: async () => (await import('./commands/events.ts')).events,
  doctor: async () => (await import('./commands/doctor.ts')).doctor,
  migrate: async () => (await import('./commands/migrate.ts')).migrate,
  copy: async () => (await import('./commands/copy.ts')).copy,
  init: async () => (await import('./commands/init.ts')).init,
  import: async () => (await import('./commands/import.ts')).importProgram,
  backup: async () => (await import('./commands/backup.ts')).backup,
  restore: async () => (await import('./commands/backup.ts')).restore,
  completion: async () => (await import('./commands/completion.ts')).completion,
  'jobs-wait': async () => (await import('./commands/jobs-wait.ts')).wait,
  'dead-letters-export': async () => (await import('./commands/dead-letters-export.ts')).letterExport,
  'policy-check': async () => (await import('./commands/policy-file.ts')).check,
  'policy-simulate': async () => (await import('./commands/policy-file.ts')).simulate,
}

export async function programOf({ does }: Command): Promise<Program> {
  if ('program' in does) return PROGRAMS[does.program]()
  if ('app' in does) return (await import('./apps/app-commands.ts')).programOfApp(does.app, does.command)
  const { programOfOperation } = await import('./operation-program.ts')
  return programOfOperation(does.operation)
}
