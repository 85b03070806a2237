import { pipeline, Readable, type Writable } from 'node:stream'
import { systemClock } from '../clock.ts'
import type { Stopper } from './stopper.ts'

type Step = () => void | Promise<void>

/**
 * Reads a pipe to its end, or until it is destroyed. When a chunk cannot be used the program is told to stop, but is
 * still read from: one that hangs on a full pipe could not end in order.
 */
export async function drain(
  stream: Readable | null,
  stopper: Stopper,
  take: (chunk: Uint8Array) => void | Promise<void>,
  end?: Step,
): Promise<void> {
  let isBroken = false
  const use = async (step: Step): Promise<void> => {
    if (isBroken) return
    try {
      await step()
    } catch (cause) {
      isBroken = true
      stopper.stop({ reason: 'io', cause })
    }
  }
  try {
    for await (const chunk of stream ?? []) await use(() => take(chunk))
  } catch (cause) {
    // Destroyed by us, because somebody we cannot see holds it open; or the machine could not read from it.
    if ((cause as NodeJS.ErrnoException).code !== 'ERR_STREAM_PREMATURE_CLOSE') stopper.stop({ reason: 'io', cause })
  }
  if (end !== undefined) await use(end)
}

/** Writes a program's input. One that ends without reading all of it is in its right; its exit code says how it went. */
export function feed(stdin: Writable, input: string | Uint8Array | Readable, stopper: Stopper): void {
  if (!(input instanceof Readable)) {
    stdin.on('error', () => undefined)
    stdin.end(input)
    return
  }
  // Before the pipeline's own listeners, which destroy the other side: whoever breaks first is the one to blame.
  input.once('error', (cause) => {
    if (!stdin.destroyed) stopper.stop({ reason: 'io', cause })
  })
  input.once('close', () => {
    if (input.readableEnded || stdin.destroyed) return
    // The program would take half of its input for the whole.
    stopper.stop({ reason: 'io', cause: new Error('its input was closed before the end') })
  })
  pipeline(input, stdin, () => undefined)
}

/** Waits for something, but not for ever. Real time: what is waited for is the machine. */
export async function within(event: Promise<unknown>, delayMs: number): Promise<void> {
  await new Promise<void>((done) => {
    const timer = systemClock.setTimer(delayMs, done)
    void event.finally(() => {
      timer.cancel()
      done()
    })
  })
}
