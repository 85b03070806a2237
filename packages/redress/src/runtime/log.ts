/** The shape of pino's methods: fields first, then a sentence. Field names are snake_case. */
export interface Log {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** Fields that may carry what a job was given. A log is read by more people than a job is. */
export const NEVER_LOGGED = ['payload', 'input', 'result', 'password', 'token', 'authorization']

const nothing = (): void => undefined

export const silentLog: Log = { debug: nothing, info: nothing, warn: nothing, error: nothing }
