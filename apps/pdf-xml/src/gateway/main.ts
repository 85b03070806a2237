import type { Log } from 'redress'
import { type GatewayOptions, startGateway } from './server.ts'

export interface RunGatewayOptions extends GatewayOptions {
  /** Stop when standard input ends: a gateway that was started by a program ends with it, however that ends. */
  untilStdinEnds?: boolean
}

/** Runs until a signal arrives, and prints its address on standard output. */
export async function runGateway({ untilStdinEnds = false, ...options }: RunGatewayOptions = {}): Promise<void> {
  const told = Promise.withResolvers<void>()
  const stop = () => told.resolve()
  process.once('SIGTERM', stop)
  process.once('SIGINT', stop)
  if (untilStdinEnds) process.stdin.once('end', stop).once('error', stop).resume()
  try {
    const gateway = await startGateway(options)
    process.stdout.write(`${JSON.stringify({ url: gateway.url })}\n`)
    await told.promise
    await gateway.stop()
  } finally {
    process.off('SIGTERM', stop)
    process.off('SIGINT', stop)
    if (untilStdinEnds) process.stdin.pause()
  }
}

/** Warnings and errors for the parent process, as JSON lines on standard error. */
function linesForParent(): Log {
  const say = (level: 'warn' | 'error') => (fields: object, message: string) => {
    process.stderr.write(`${JSON.stringify({ level, message, fields }, withErrors)}\n`)
  }
  const unsaid = () => undefined
  return { debug: unsaid, info: unsaid, warn: say('warn'), error: say('error') }
}

const withErrors = (_key: string, value: unknown): unknown => (value instanceof Error ? String(value.stack) : value)

if (import.meta.main) {
  await runGateway({ ...(JSON.parse(process.argv[2] ?? '{}') as RunGatewayOptions), log: linesForParent() })
}
