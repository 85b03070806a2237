/** The shape of pino's methods: fields first, then a sentence. Field names are snake_case. */
export interface Log {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

const nothing = (): void => undefined

export const silentLog: Log = { debug: nothing, info: nothing, warn: nothing, error: nothing }
