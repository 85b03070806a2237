import { existsSync, statSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { AttemptFailed, AttemptTimeout } from '../../src/core/failure/attempt-failed.ts'
import { captureFailure } from '../../src/core/failure/capture.ts'
import { type Rule, rule } from '../../src/core/failure/classify.ts'
import { factsOf } from '../../src/core/failure/facts.ts'
import { failureCodes, withEngineCodes } from '../../src/core/failure/taxonomy.ts'
import { runProgram } from '../../src/programs/run.ts'
import { failureOf, onLinux, scratch, script } from './programs.ts'

const file = scratch()
const MIB = 1 << 20

describe.runIf(onLinux)('limits, on Linux, which keeps them', () => {
  test('processor time', async () => {
    const failure = await failureOf({ ...script('while :; do :; done'), limits: { cpuSeconds: 1 } })
    expect(failure).toMatchObject({
      message: 'sh was killed by SIGXCPU (it used up its 1 s of processor time)',
      reason: 'signal',
      signal: 'SIGXCPU',
    })
  })

  test('memory', async () => {
    const failure = await failureOf({
      ...script('head -c 1G /dev/zero | tail'),
      limits: { memoryBytes: 200 * MIB },
    })
    expect(failure).toMatchObject({
      message: `sh failed with exit code 1 (it reached its memory limit of ${200 * MIB} bytes): tail: memory exhausted`,
      exitCode: 1,
    })
  })

  test('the size of a file', async () => {
    const program = { program: 'dd', args: ['if=/dev/zero', `of=${file('big')}`, 'bs=1M', 'count=8'] }
    const failure = await failureOf({ ...program, limits: { fileBytes: 2 * MIB } })
    expect(failure.message).toContain(`it wrote more into one file than its limit of ${2 * MIB} bytes`)
    expect(failure.signal).toBe('SIGXFSZ')
    expect(statSync(file('big')).size).toBe(2 * MIB)
  })

  test('the size of the file that stdout goes to', async () => {
    const stdout = { file: file('out') }
    const failure = await failureOf({ program: 'yes', stdout, limits: { fileBytes: MIB } })
    expect(failure.signal).toBe('SIGXFSZ')
    expect(statSync(file('out')).size).toBe(MIB)
  })

  test('open files, processes and cores', async () => {
    const limits = { openFiles: 16, processes: 50_000 }
    const { stdout } = await runProgram({
      ...script('ulimit -n; ulimit -c; cat /proc/self/limits'),
      limits,
      stdout: 'text',
    })
    expect(stdout).toMatch(/^16\n0\n/)
    expect(stdout).toMatch(/Max processes +50000 +50000/)
  })

  test('a shell whose child met a limit tells it by its exit code', async () => {
    const failure = await failureOf({ ...script('sh -c "kill -XFSZ \\$\\$"; exit $?'), limits: { fileBytes: MIB } })
    expect(failure.exitCode).toBe(153)
    expect(failure.message).toContain('(SIGXFSZ: it wrote more into one file')
  })

  test('limits that the system refuses are no failure of the program', async () => {
    const failure = await failureOf({ ...script('touch "$1"', file('ran')), limits: { openFiles: 2 ** 40 } })
    expect(failure).toMatchObject({ reason: 'not-started', exitCode: null })
    expect(failure.message).toMatch(/^sh was not started: failed to set/)
    expect(existsSync(file('ran'))).toBe(false)
  })
})

describe('what a failure says for certain', () => {
  const codes = withEngineCodes(
    failureCodes({
      KILLED: { fault: 'unknown', retry: 'transient', message: 'The encoder was killed.' },
      TOO_SLOW: { fault: 'unknown', retry: 'transient', message: 'The encoder took too long.' },
      BAD_MEDIA: { fault: 'caller', retry: 'never', message: 'This is no video.' },
      NO_ENCODER: { fault: 'operator', retry: 'never', message: 'The encoder is not installed.' },
      ENCODER: { fault: 'unknown', retry: 'never', message: 'Encoding failed.' },
    }),
  )
  // Those of exit codes stand first on purpose: they must not take a time limit for something else.
  const rules: Rule<string>[] = [
    rule.exit(137, 'KILLED'),
    rule.when({ exit: 'nonzero', subject: 'input' }, 'BAD_MEDIA'),
    rule.exit('nonzero', 'ENCODER'),
    rule.timeout('TOO_SLOW'),
    rule.errno('ENOENT', 'NO_ENCODER'),
  ]
  const capture = (thrown: unknown) =>
    captureFailure({ thrown, phase: 'execution', type: 'clip.encode', codes, rules, nowMs: 0 }).failure

  test('a failed program gives its exit code, the end of its stderr and its subject [P24 P25]', async () => {
    const thrown = await failureOf({ ...script('echo moov atom not found >&2; exit 69'), subject: 'input' })
    expect(thrown.message).toBe('sh failed with exit code 69: moov atom not found')
    const { code, context, detail } = capture(thrown)
    expect(code).toBe('BAD_MEDIA')
    expect(context).toEqual({ exitCode: 69, stderrTail: 'moov atom not found', subject: 'input' })
    expect(detail).toMatch(/^ProgramFailed: sh failed with exit code 69: moov atom not found\n {4}at /)
  })

  test('a program killed by SIGKILL has exit status 137, reported by Node or by a shell [W23]', async () => {
    const killed = await failureOf(script('kill -9 $$'))
    const told = await failureOf(script('sh -c "kill -9 \\$\\$"; exit $?'))
    expect(killed).toMatchObject({ exitCode: null, signal: 'SIGKILL', reason: 'signal' })
    expect(told).toMatchObject({ exitCode: 137, signal: null, reason: 'exit' })
    expect(killed.message).toBe('sh was killed by SIGKILL (often the kernel, when memory runs out)')
    expect(told.message).toMatch(/^sh failed with exit code 137 \(SIGKILL: often the kernel, when memory runs out\)/)
    expect([capture(killed).code, capture(told).code]).toEqual(['KILLED', 'KILLED'])
  })

  test('a program that exceeds its time limit is a timeout, not the signal that ended it [P20]', async () => {
    const thrown = await failureOf({ ...script('trap "" TERM; sleep 600; sleep 600'), timeoutMs: 50, killAfterMs: 50 })
    expect(factsOf(thrown, 'execution')).toMatchObject({ isTimeout: true, exitCode: null, signal: null })
    expect(capture(thrown).code).toBe('TOO_SLOW')
  })

  test("the engine's own time limit is recognised through the signal", async () => {
    const signal = AbortSignal.abort(new AttemptTimeout(1000))
    const facts = factsOf(await failureOf({ program: 'true', signal }), 'execution')
    expect(facts).toMatchObject({ engineLimit: 'attempt', isTimeout: true })
  })

  test('AbortSignal.timeout is a timeout', async () => {
    const thrown = await failureOf({ program: 'sleep', args: ['600'], signal: AbortSignal.timeout(20) })
    expect(factsOf(thrown, 'execution').isTimeout).toBe(true)
  })

  test('a missing program is an errno', async () => {
    expect(capture(await failureOf({ program: 'no-such-program' })).code).toBe('NO_ENCODER')
  })

  test('a code that a callback declared wins', async () => {
    const onStderrLine = () => {
      throw new AttemptFailed('BAD_MEDIA')
    }
    const thrown: unknown = await runProgram({ ...script('echo x >&2; exec sleep 600'), onStderrLine }).catch((e) => e)
    expect(capture(thrown)).toMatchObject({ code: 'BAD_MEDIA', rule: 'declared by the handler' })
  })

  test('a message is one line without orders to the terminal', async () => {
    const { message } = await failureOf(script('printf "\\033[31mred\\033[2J\\a \\000x\\n" >&2; exit 1'))
    expect(message).toMatch(/^sh failed with exit code 1: red/)
    expect(message).not.toMatch(/\p{Cc}/u)
  })
})
