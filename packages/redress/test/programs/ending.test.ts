import { spawn } from 'node:child_process'
import { getEventListeners, once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { turns, until } from '../../../../test/support/until.ts'
import { checkOptions } from '../../src/programs/options.ts'
import { runProgram } from '../../src/programs/run.ts'
import { Stopper } from '../../src/programs/stopper.ts'
import { VirtualClock } from '../../src/runtime/clock.ts'
import { failureOf, isAlive, onLinux, scratch, script } from './programs.ts'

const file = scratch()

/** The process ids that a script wrote, one per line. */
const pids = (name: string): string[] => readFileSync(file(name), 'utf8').trim().split('\n')

/** Runs a program on a virtual clock; `ready` settles when it said a line on stderr. */
function begin(text: string, options: object = {}) {
  const clock = new VirtualClock()
  const said: string[] = []
  const failing = failureOf({
    ...script(text, file('pids')),
    clock,
    onStderrLine: (line) => said.push(line),
    ...options,
  })
  return { clock, failing, ready: until('the program is ready', () => said.length > 0) }
}

describe('the time limit', () => {
  test('ends a program with SIGTERM, and says that it was the time', async () => {
    const { clock, failing, ready } = begin('echo ready >&2; exec sleep 600', { timeoutMs: 30_000 })
    await ready
    await clock.advance(29_999)
    await clock.advance(1)
    expect(await failing).toMatchObject({
      message: 'sh was stopped after its 30 s (SIGTERM): ready',
      reason: 'timeout',
      timedOut: true,
      stoppedWith: 'SIGTERM',
      exitCode: null,
      signal: null,
      durationMs: 30_000,
      stderrTail: 'ready\n',
    })
  })

  test('kills a program that ignores SIGTERM, with everything it started', async () => {
    const { clock, failing, ready } = begin(
      'trap "" TERM; sleep 600 & echo $! > "$1"; echo $$ >> "$1"; echo ready >&2; wait; while :; do sleep 600; done',
      { timeoutMs: 1000, killAfterMs: 2000 },
    )
    await ready
    const started = pids('pids')
    expect(started.map(isAlive)).toEqual([true, true])
    await clock.advance(1000)
    await clock.advance(1999)
    await turns()
    expect(isAlive(started[1] as string)).toBe(true)
    await clock.advance(1)
    expect(await failing).toMatchObject({ reason: 'timeout', stoppedWith: 'SIGKILL', signal: null })
    expect(started.map(isAlive)).toEqual([false, false])
  })

  test('a program that ends in order when told to was stopped all the same', async () => {
    const { clock, failing, ready } = begin('trap "echo tidied >&2; exit 0" TERM; echo ready >&2; sleep 600 & wait', {
      timeoutMs: 1000,
    })
    await ready
    await clock.advance(1000)
    expect(await failing).toMatchObject({ reason: 'timeout', exitCode: null, stderrTail: 'ready\ntidied\n' })
  })

  test('is the reason that counts when others follow', async () => {
    const abort = new AbortController()
    const { clock, failing, ready } = begin('trap "" TERM; echo ready >&2; while :; do sleep 600; done', {
      timeoutMs: 1000,
      signal: abort.signal,
    })
    await ready
    await clock.advance(1000)
    abort.abort()
    await clock.advance(5000)
    expect(await failing).toMatchObject({ reason: 'timeout', stoppedWith: 'SIGKILL' })
  })

  test('is an hour unless said', async () => {
    const { clock, failing, ready } = begin('echo ready >&2; exec sleep 6000')
    await ready
    await clock.advance(3_600_000)
    expect((await failing).message).toContain('after its 3600 s')
  })

  test('one that cannot be killed is not waited for without end', async () => {
    const clock = new VirtualClock()
    const signals: string[] = []
    const stopper = new Stopper(checkOptions({ program: 'x', timeoutMs: 1, clock }), {
      signal: (name) => signals.push(name),
    })
    await clock.advance(1 + 5000 + 10_000)
    expect(await stopper.givenUp).toBeNull()
    expect(signals).toEqual(['SIGTERM', 'SIGKILL'])
    const facts = { stderrTail: '', durationMs: 15_001 }
    expect(() => stopper.throwIfStopped(facts, [77], true)).toThrow(
      'x was stopped after its 0.001 s (SIGKILL), and could not be killed (77)',
    )
  })
})

describe('the signal of the caller', () => {
  test('that was given before keeps the program from starting', async () => {
    const cause = new Error('no longer wanted')
    const failure = await failureOf({ ...script('touch "$1"', file('ran')), signal: AbortSignal.abort(cause) })
    expect(failure).toMatchObject({
      message: 'sh was not started: no longer wanted',
      reason: 'aborted',
      stoppedWith: null,
      cause,
    })
    expect(existsSync(file('ran'))).toBe(false)
  })

  test('that comes while it is being prepared does so, too', async () => {
    const abort = new AbortController()
    const failing = failureOf({ ...script('touch "$1"', file('ran')), signal: abort.signal })
    abort.abort()
    expect((await failing).message).toContain('was not started')
    expect(existsSync(file('ran'))).toBe(false)
  })

  test('that comes while it is being started stops it', () => {
    const signals: string[] = []
    const run = checkOptions({ program: 'x', signal: AbortSignal.abort(), clock: new VirtualClock() })
    new Stopper(run, { signal: (name) => signals.push(name) })
    expect(signals).toEqual(['SIGTERM'])
  })

  test('that comes later stops it, with everything it started', async () => {
    const abort = new AbortController()
    const { failing, ready } = begin('sleep 600 & echo $! > "$1"; echo $$ >> "$1"; echo ready >&2; wait', {
      signal: abort.signal,
    })
    await ready
    const started = pids('pids')
    abort.abort(new Error('the lease was lost'))
    expect(await failing).toMatchObject({
      message: 'sh was stopped (SIGTERM): the lease was lost: ready',
      reason: 'aborted',
      timedOut: false,
    })
    expect(started.map(isAlive)).toEqual([false, false])
  })

  test('that comes after the end changes nothing, and is not listened to any more', async () => {
    const abort = new AbortController()
    const result = await runProgram({ program: 'true', signal: abort.signal })
    expect(getEventListeners(abort.signal, 'abort')).toEqual([])
    abort.abort()
    expect(result.exitCode).toBe(0)
  })

  test('an odd reason is no trouble', async () => {
    const failure = await failureOf({ program: 'true', signal: AbortSignal.abort(Object.create(null)) })
    expect(failure.message).toBe('true was not started: no reason was given')
  })
})

describe('when the program has ended, nothing of it is left', () => {
  test('a child that keeps stderr open does not keep us waiting', async () => {
    const { stderrTail } = await runProgram(script('echo said >&2; sleep 600 & echo $! > "$1"', file('pids')))
    expect(stderrTail).toBe('said\n')
    expect(pids('pids').map(isAlive)).toEqual([false])
  })

  test('a child that let go of everything is killed as well', async () => {
    await runProgram(script('sleep 600 </dev/null >/dev/null 2>&1 & echo $! > "$1"', file('pids')))
    expect(pids('pids').map(isAlive)).toEqual([false])
  })

  test('a child that still writes what it was given has a moment for it', async () => {
    // It says so only when the program itself ($$) is gone.
    const text = '{ while kill -0 $$ 2>/dev/null; do :; done; echo "work done"; } &'
    const { stdout } = await runProgram({ ...script(text), stdout: 'text' })
    expect(stdout).toBe('work done\n')
  })

  test('and a failure is told as it was', async () => {
    const failure = await failureOf(script('sleep 600 & echo $! > "$1"; exit 3', file('pids')))
    expect(failure).toMatchObject({ reason: 'exit', exitCode: 3 })
    expect(pids('pids').map(isAlive)).toEqual([false])
  })

  test.runIf(onLinux)('a child that left the group for a session of its own is found by its mark', async () => {
    const text =
      'setsid sh -c \'echo $$ > "$1"; exec sleep 600\' sh "$1" >/dev/null 2>&1 & while [ ! -s "$1" ]; do :; done'
    await runProgram(script(text, file('pids')))
    expect(pids('pids').map(isAlive)).toEqual([false])
  })

  test('programs that run at the same time leave each other alone', async () => {
    const runs = Array.from({ length: 8 }, (_, n) =>
      runProgram({ ...script('sleep 600 >/dev/null 2>&1 & sleep "0.$1"; echo "$1"', String(n)), stdout: 'text' }),
    )
    expect((await Promise.all(runs)).map(({ stdout }) => stdout.trim())).toEqual([...'01234567'])
  })
})

describe('when the process that runs it ends', () => {
  const module = join(import.meta.dirname, '../../src/programs/run.ts')

  /** A process that runs a program, which writes its process ids; `then` is what it does when they are there. */
  function host(text: string, then: string) {
    const code = `
      const { runProgram } = await import(${JSON.stringify(module)})
      const args = ['-c', ${JSON.stringify(text)}, 'sh', ${JSON.stringify(file('pids'))}]
      await runProgram({ program: 'sh', args, onStderrLine: () => { ${then} } })`
    return spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: 'ignore' })
  }

  test.runIf(onLinux)('by SIGKILL, the program is killed by the kernel', async () => {
    const worker = host('echo $$ > "$1"; echo ready >&2; exec sleep 600', '')
    await until('the program runs', () => existsSync(file('pids')) && pids('pids')[0] !== '')
    const [pid = ''] = pids('pids')
    worker.kill('SIGKILL')
    await until('the program is gone', () => !isAlive(pid))
  })

  test('by process.exit, the program and its children are killed', async () => {
    const worker = host('sleep 600 & echo $! > "$1"; echo $$ >> "$1"; echo ready >&2; wait', 'process.exit(0)')
    await once(worker, 'exit')
    const started = pids('pids')
    expect(started.length).toBe(2)
    await until('both are gone', () => !started.some(isAlive))
  })
})
