const EXIT_OF_SIGNAL = { SIGINT: 130, SIGTERM: 143 } as const

/** A signal ends the command as any other end does: what it would leave half done is removed on the way out. */
export function exitOnSignals(): void {
  for (const [signal, code] of Object.entries(EXIT_OF_SIGNAL)) process.once(signal, () => process.exit(code))
}
