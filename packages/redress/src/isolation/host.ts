import type { FromHandler, ToHandler } from './messages.ts'

/** How a thread or process ended. */
export interface HostEnding {
  /** 'exited with code 3', 'was killed by SIGSEGV'. */
  how: string
  exitCode: number | null
  signal: string | null
  /** Set when it needed too much memory: what is known about it. */
  memory: { used: string | null } | null
  /** The last lines that it printed as errors. */
  stderrTail: string
  /** The error that ended it, if there is one. */
  cause?: unknown
}

/** The last lines that the handler printed; empty where they are not caught. */
export interface Printed {
  stdoutTail: string
  stderrTail: string
}

/** A thread or process that holds one handler, seen from the worker. */
export interface Host {
  /** Resolves once, when nothing of it is left. */
  readonly ended: Promise<HostEnding>
  onMessage: (message: FromHandler) => void
  /** Throws if the message cannot be copied. */
  post(message: ToHandler): void
  /** At once, whatever it does. */
  kill(): void
  /** Whether it keeps this process from ending. */
  hold(isHeld: boolean): void
  /** Forgets what earlier jobs printed. */
  clearPrinted(): void
  printed(): Promise<Printed>
}
