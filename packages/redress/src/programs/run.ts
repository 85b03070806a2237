import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { type FileHandle, open } from 'node:fs/promises'
import { pipeline, Readable, type Writable } from 'node:stream'
import { systemClock } from '../runtime/clock.ts'
import { environmentOf, type Launch, launchOf, neverBegan } from './launch.ts'
import { type CheckedOptions, checkOptions, type ProgramOptions } from './options.ts'
import { LineSplitter, StderrFile, Tail, WholeText } from './output.ts'
import { causeLine, endingInWords, explain, ProgramFailed } from './program-failed.ts'
import { ProcessGroup, processIds, Stopper } from './stopper.ts'
/** What a program that succeeded left. */
export interface ProgramResult {
  exitCode: 0
  signal: null
  /** Empty unless `stdout` is 'text'. */
  stdout: string
  /** Redacted. */
  stderrTail: string
  durationMs: number
}

/** After the program ended, what it left behind may still finish what it writes to us (`a > >(tee log)`). */
const LINGER_MS = 1000
/** After all known processes are dead, a process that cannot be seen may still hold a pipe. */
const PIPES_MS = 2000

/**
 * Runs a program to its end, without a shell. Resolves for exit code 0, throws `ProgramFailed` for every other end and
 * `RedressError` for options that cannot be meant. When it settles, nothing of what was started is alive any more.
 * What a callback throws stops the program and is thrown unchanged.
 */
export async function runProgram(options: ProgramOptions): Promise<ProgramResult> {
  const run = checkOptions(options)
  let stderrFile: StderrFile | null = null
  let stdoutFile: FileHandle | null = null
  try {
    throwIfAborted(run)
    const mark = randomUUID()
    const env = environmentOf(run.env, mark)
    const launch = await launchOf(run, env.PATH ?? '')
    if (run.stderrFile !== undefined)
      stderrFile = await opened(run, StderrFile.open(run.stderrFile, run.stderrBytesMax))
    if (typeof run.stdout === 'object' && 'file' in run.stdout)
      stdoutFile = await opened(run, open(run.stdout.file, 'w'))
    const before = await processIds()
    throwIfAborted(run)

    const startedMs = run.clock.monoMs()
    const child = await start(run, launch, env, stdoutFile)
    const group = new ProcessGroup(child.pid as number, mark, before)
    return await watch({ run, launch, child, group, stderrFile, startedMs })
  } finally {
    if (run.input instanceof Readable) run.input.destroy()
    await stderrFile?.close().catch(() => undefined)
    await stdoutFile?.close().catch(() => undefined)
  }
}

async function opened<T>(run: CheckedOptions, opening: Promise<T>): Promise<T> {
  try {
    return await opening
  } catch (cause) {
    throw new ProgramFailed(run, `was not started: its output cannot be kept: ${explain(cause)}`, {
      reason: 'not-started',
      cause,
    })
  }
}

function throwIfAborted(run: CheckedOptions): void {
  if (!run.signal?.aborted) return
  const cause: unknown = run.signal.reason
  throw new ProgramFailed(run, `was not started: ${explain(cause)}`, { reason: 'aborted', cause })
}

async function start(
  run: CheckedOptions,
  { file, args, cwd }: Launch,
  env: Record<string, string>,
  stdoutFile: FileHandle | null,
): Promise<ChildProcess> {
  const stdin = run.input === undefined ? 'ignore' : 'pipe'
  const stdout = stdoutFile?.fd ?? (run.stdout === 'ignore' ? 'ignore' : 'pipe')
  try {
    // Detached makes it the leader of a process group of its own, which can be signalled as one.
    const child = spawn(file, args, { cwd, env, detached: true, stdio: [stdin, stdout, 'pipe'] })
    if (child.pid !== undefined) return child
    const [error] = await once(child, 'error')
    throw error
  } catch (cause) {
    throw new ProgramFailed(run, `was not started: ${explain(cause)}`, { reason: 'not-started', cause })
  }
}

interface Watched {
  run: CheckedOptions
  launch: Launch
  child: ChildProcess
  group: ProcessGroup
  stderrFile: StderrFile | null
  startedMs: number
}

async function watch({ run, launch, child, group, stderrFile, startedMs }: Watched): Promise<ProgramResult> {
  const stopper = new Stopper(run, group)
  const exited = once(child, 'exit') as Promise<[exitCode: number | null, signal: string | null]>
  const tail = new Tail(run.stderrTailBytes)
  const text = new WholeText(run.stdoutBytesMax)
  const reading = Promise.all([
    readStdout(run, child.stdout, text, stopper),
    readStderr(run, child.stderr, tail, stderrFile, stopper),
  ])
  if (run.input !== undefined && child.stdin !== null) feed(child.stdin, run.input, stopper)

  const [exitCode, signal] = (await Promise.race([exited, stopper.givenUp])) ?? [null, null]
  stopper.disarm()
  // Only for one that would not go: it must not keep this process from ending.
  child.unref()
  await within(reading, LINGER_MS)
  const survivors = await group.end()
  await within(reading, PIPES_MS)
  child.stdout?.destroy()
  child.stderr?.destroy()
  await reading

  const stderrTail = tail.text()
  const durationMs = Math.round(run.clock.monoMs() - startedMs)
  const facts = { stderrTail, durationMs }
  stopper.throwIfStopped(facts, survivors, exitCode !== 0)
  if (survivors.length > 0) {
    const message = `left processes behind that could not be killed (${survivors.join(', ')})${causeLine(run, stderrTail)}`
    throw new ProgramFailed(run, message, { reason: 'not-ended', exitCode, signal, ...facts })
  }
  if (exitCode === 0) return { exitCode, signal: null, stdout: text.text(), ...facts }
  const complaint = neverBegan(launch, exitCode, stderrTail)
  if (complaint !== null) {
    const code = exitCode === 127 ? 'ENOENT' : exitCode === 126 ? 'EACCES' : null
    throw new ProgramFailed(run, `was not started: ${complaint}`, { reason: 'not-started', code, durationMs })
  }
  const words = endingInWords({ exitCode, signal, stderrTail }, run)
  throw new ProgramFailed(run, words, { reason: signal === null ? 'exit' : 'signal', exitCode, signal, ...facts })
}

function readStdout(
  { stdout, stdoutBytesMax, lineBytesMax }: CheckedOptions,
  stream: Readable | null,
  text: WholeText,
  stopper: Stopper,
): Promise<void> {
  if (stdout === 'text') {
    return drain(stream, stopper, (chunk) => {
      if (!text.take(chunk)) stopper.stop({ reason: 'output-too-large', bytesMax: stdoutBytesMax })
    })
  }
  if (typeof stdout === 'string' || 'file' in stdout) return Promise.resolve()
  const lines = new LineSplitter(lineBytesMax, stopper.guard(stdout.onLine))
  return drain(
    stream,
    stopper,
    (chunk) => lines.take(chunk),
    () => lines.end(),
  )
}

function readStderr(
  { onStderrLine, lineBytesMax }: CheckedOptions,
  stream: Readable | null,
  tail: Tail,
  file: StderrFile | null,
  stopper: Stopper,
): Promise<void> {
  const lines = onStderrLine === undefined ? null : new LineSplitter(lineBytesMax, stopper.guard(onStderrLine))
  return drain(
    stream,
    stopper,
    async (chunk) => {
      tail.take(chunk)
      lines?.take(chunk)
      await file?.take(chunk)
    },
    async () => {
      lines?.end()
      await file?.end(tail)
    },
  )
}

type Step = () => void | Promise<void>

/**
 * Reads a pipe to its end, or until it is destroyed. When a chunk cannot be used the program is told to stop, but is
 * still read from: one that hangs on a full pipe could not end in order.
 */
async function drain(
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
    // Destroyed by us, because an unseen process holds it open; or the machine could not read from it.
    if ((cause as NodeJS.ErrnoException).code !== 'ERR_STREAM_PREMATURE_CLOSE') stopper.stop({ reason: 'io', cause })
  }
  if (end !== undefined) await use(end)
}

/** Writes a program's input. One that ends without reading all of it is in its right; its exit code says how it went. */
function feed(stdin: Writable, input: string | Uint8Array | Readable, stopper: Stopper): void {
  if (!(input instanceof Readable)) {
    stdin.on('error', () => undefined)
    stdin.end(input)
    return
  }
  // Before the pipeline's own listeners, which destroy the other side: the side that breaks first is the cause.
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
async function within(event: Promise<unknown>, delayMs: number): Promise<void> {
  await new Promise<void>((done) => {
    const timer = systemClock.setTimer(delayMs, done)
    void event.finally(() => {
      timer.cancel()
      done()
    })
  })
}
