import { type GatewayOptions, startGateway } from './server.ts'

export interface RunGatewayOptions extends GatewayOptions {
  /** Stop when standard input ends: a gateway that was started by a program ends with it, however that ends. */
  untilStdinEnds?: boolean
}

/** Runs until it is told to stop, and says on standard output where it listens. */
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

if (import.meta.main) await runGateway(JSON.parse(process.argv[2] ?? '{}') as RunGatewayOptions)
