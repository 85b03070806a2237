import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { relative } from 'node:path'
import { Readable } from 'node:stream'
import { afterEach, describe, expect, test } from 'vitest'
import { RedressError } from '../../src/core/errors.ts'
import { type ProgramOptions, runProgram } from '../../src/programs/index.ts'
import { wrappersOf } from '../../src/programs/launch.ts'
import { VirtualClock } from '../../src/runtime/clock.ts'
import { failureOf, onLinux, scratch, script } from './programs.ts'

const file = scratch()

test('a program that ends with exit code 0 is a result', async () => {
  const clock = new VirtualClock()
  const result = await runProgram({ ...script('echo out; echo err >&2'), stdout: 'text', clock })
  expect(result).toEqual({ exitCode: 0, signal: null, stdout: 'out\n', stderrTail: 'err\n', durationMs: 0 })
})

test('arguments reach the program as they are: there is no shell', async () => {
  const args = ['$HOME', '*', '; echo bad', '"', "'", '', 'ü\n', '-x', '--']
  const { stdout } = await runProgram({
    program: process.execPath,
    args: ['-e', 'console.log(JSON.stringify(process.argv.slice(1)))', '--', ...args],
    stdout: 'text',
  })
  expect(JSON.parse(stdout)).toEqual(args)
})

test('it runs where it is told to, and a relative path of the program begins there', async () => {
  mkdirSync(file('work'))
  writeFileSync(file('work/tool'), '#!/bin/sh\npwd\n', { mode: 0o755 })
  const { stdout } = await runProgram({ program: './tool', cwd: file('work'), stdout: 'text' })
  expect(stdout.trim().endsWith('/work')).toBe(true)
})

test('a file in the working folder does not stand in for a program of PATH', async () => {
  writeFileSync(file('tool'), '#!/bin/sh\necho mine\n', { mode: 0o755 })
  const failure = await failureOf({ program: 'tool', cwd: file('.'), env: { PATH: `:.:${relative('.', file('.'))}` } })
  expect(failure.code).toBe('ENOENT')
})

describe('the environment', () => {
  afterEach(() => {
    delete process.env.FAKE_API_TOKEN
    delete process.env.TZ
  })

  test('holds nothing that was not given, but for what is harmless', async () => {
    process.env.FAKE_API_TOKEN = 'sk_live_do_not_tell'
    process.env.TZ = 'Europe/Zurich'
    const { stdout } = await runProgram({ program: 'env', env: { GIVEN: 'yes', LANG: 'C' }, stdout: 'text' })
    expect(stdout).not.toContain('do_not_tell')
    expect(stdout).toContain('GIVEN=yes\n')
    expect(stdout).toContain('LANG=C\n')
    expect(stdout).toContain('TZ=Europe/Zurich\n')
    const names = [...stdout.matchAll(/^(\w+)=/gm)].map((found) => found[1])
    const harmless = ['PATH', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR', 'GIVEN', 'REDRESS_PROGRAM_RUN']
    expect(names.filter((name) => !harmless.includes(name ?? ''))).toEqual([])
  })
})

describe('input', () => {
  const wc = { program: 'cat', stdout: 'text' } as const

  test('is closed unless something is given', async () => {
    expect((await runProgram(wc)).stdout).toBe('')
  })

  test.each([
    ['text', () => 'a ü'],
    ['bytes', () => Buffer.from('a ü')],
    ['a stream', () => Readable.from(['a ', 'ü'])],
  ])('can be %s', async (_, input) => {
    expect((await runProgram({ ...wc, input: input() })).stdout).toBe('a ü')
  })

  test('need not be read: a program may know enough', async () => {
    const endless = new Readable({
      read() {
        this.push(Buffer.alloc(65_536))
      },
    })
    expect((await runProgram({ program: 'true', input: Buffer.alloc(10_000_000) })).exitCode).toBe(0)
    expect((await runProgram({ program: 'head', args: ['-c', '10'], input: endless })).exitCode).toBe(0)
    expect(endless.destroyed).toBe(true)
  })

  test('that fails is a failure, with its cause', async () => {
    const cause = new Error('the disk is gone')
    const input = new Readable({ read: () => undefined })
    const failing = failureOf({ ...script('echo here >&2; cat'), input, onStderrLine: () => input.destroy(cause) })
    expect(await failing).toMatchObject({ reason: 'io', cause, stoppedWith: 'SIGTERM' })
  })

  test('that ends in the middle is not taken for the whole', async () => {
    const input = new Readable({ read: () => undefined })
    const failing = failureOf({ ...script('echo here >&2; cat'), input, onStderrLine: () => input.destroy() })
    expect((await failing).message).toBe(
      'sh failed at its input or output (SIGTERM): its input was closed before the end: here',
    )
  })

  test('is let go of when nothing is started', async () => {
    const input = Readable.from(['x'])
    await failureOf({ program: 'no-such-program', input })
    expect(input.destroyed).toBe(true)
  })
})

describe('a program that cannot be started', () => {
  test('because it is not there', async () => {
    const failure = await failureOf({ program: 'no-such-program' })
    expect(failure).toMatchObject({ reason: 'not-started', code: 'ENOENT', exitCode: null, signal: null })
    expect(failure.message).toBe('no-such-program was not started: there is no such program in PATH')
    expect((await failureOf({ program: '/no/such/file' })).message).toBe(
      '/no/such/file was not started: there is no such file',
    )
  })

  test('because it may not be executed', async () => {
    writeFileSync(file('data'), 'x')
    chmodSync(file('data'), 0o644)
    for (const program of [file('data'), file('.')]) {
      expect(await failureOf({ program })).toMatchObject({ reason: 'not-started', code: 'EACCES' })
    }
  })

  test('because its interpreter is missing', async () => {
    writeFileSync(file('tool'), '#!/no/such/interpreter\n', { mode: 0o755 })
    const failure = await failureOf({ program: file('tool') })
    expect(failure).toMatchObject({ reason: 'not-started', code: 'ENOENT', exitCode: null })
  })

  test('because its folder is missing, or is a file', async () => {
    const absent = await failureOf({ program: 'true', cwd: file('absent') })
    expect(absent).toMatchObject({ reason: 'not-started', code: 'ENOENT' })
    expect(absent.message).toContain('no working folder')
    writeFileSync(file('data'), 'x')
    expect(await failureOf({ program: 'true', cwd: file('data') })).toMatchObject({ code: 'ENOTDIR' })
  })

  test('because its arguments are too long for the system', async () => {
    const failure = await failureOf({ program: 'true', args: ['x'.repeat(10_000_000)] })
    expect(failure).toMatchObject({ reason: 'not-started', code: 'E2BIG' })
    expect(failure.command.length).toBeLessThanOrEqual(2000)
  })

  test('because its output has no place', async () => {
    for (const options of [{ stdout: { file: file('absent/out') } }, { stderrFile: file('absent/err') }]) {
      expect(await failureOf({ program: 'true', ...options })).toMatchObject({ reason: 'not-started', code: 'ENOENT' })
    }
  })

  test('an exit code 127 of its own is an exit code', async () => {
    expect(await failureOf(script('no-such-command'))).toMatchObject({ reason: 'exit', exitCode: 127, code: null })
  })
})

describe('options that cannot be meant', () => {
  const ended = Readable.from([])
  ended.destroy()
  const cases: [options: unknown, problem: string][] = [
    [undefined, 'program must be a string'],
    [{ program: '' }, 'program is empty'],
    [{ program: 'a\0b' }, 'program has a NUL byte'],
    [{ program: 'ls', args: '-l /' }, 'args must be a list of strings: there is no shell'],
    [{ program: 'ls', args: ['-l', 'a\0b'] }, 'args[1] has a NUL byte in it'],
    [{ program: 'ls', args: [1] }, 'args[0] must be a string'],
    [{ program: 'ls', env: { A: undefined } }, 'env.A must be a string'],
    [{ program: 'ls', env: { 'A=B': 'x' } }, 'env has the name "A=B"'],
    [{ program: 'ls', shell: true }, 'runProgram() has no option "shell"'],
    [{ program: 'ls', timeout: 5 }, 'runProgram() has no option "timeout"'],
    [{ program: 'ls', timeoutMs: Number.NaN }, 'timeoutMs must be a whole number from 1'],
    [{ program: 'ls', timeoutMs: 1e10 }, 'timeoutMs must be a whole number from 1 to 2147483647'],
    [{ program: 'ls', stdout: 'inherit' }, "stdout must be 'ignore', 'text', { file } or { onLine }"],
    [{ program: 'ls', input: 5 }, 'input must be a string, bytes or a Readable'],
    [{ program: 'ls', input: ended }, 'input is a stream that has ended already'],
    [{ program: 'ls', signal: {} }, 'signal must be an AbortSignal'],
    [{ program: 'ls', limits: { memory: 5 } }, 'limits of runProgram() has no option "memory"'],
    [{ program: 'ls', limits: { cpuSeconds: 0.5 } }, 'limits.cpuSeconds must be a whole number from 1'],
  ]
  test.each(cases)('%j', async (options, problem) => {
    const error = await runProgram(options as ProgramOptions).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(RedressError)
    expect(error).toMatchObject({ code: 'OPTION_INVALID', message: expect.stringContaining(problem) })
  })

  test('all of them are named at once', async () => {
    const options = { program: '', args: ['\0'], killAfterMs: -1 }
    await expect(runProgram(options)).rejects.toMatchObject({ problems: { length: 3 } })
  })
})

describe('the tools of the system', () => {
  test('limits that cannot be enforced are refused, not ignored', async () => {
    await expect(wrappersOf({ cpuSeconds: 1 }, [file('.')])).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: 'runProgram: limits need the program prlimit, which is not installed.',
    })
  })

  test('a setpriv that does not know the flag is left out', async () => {
    writeFileSync(file('setpriv'), '#!/bin/sh\nexit 1\n', { mode: 0o755 })
    expect(await wrappersOf({}, [file('.')])).toEqual([])
  })

  test.runIf(onLinux)('Debian has both', async () => {
    expect(await wrappersOf({ openFiles: 9 })).toEqual([
      ...['/usr/bin/setpriv', '--pdeathsig', 'KILL', '--'],
      ...['/usr/bin/prlimit', '--core=0', '--nofile=9', '--'],
    ])
  })
})

test('secrets in arguments are not in the command that the failure shows', async () => {
  const secrets = [
    ...['--password', 'open sesame', '--api-key=sesame', '-u', 'bob:sesame x', 'https://bob:sesame@host/clip'],
    ...['Authorization: Bearer sesame12345', '--opt=password=open sesame'],
  ]
  const failure = await failureOf({ program: 'false', args: [...secrets, 'clip 1.mp4'] })
  expect(failure.command).toBe(
    'false --password [redacted] --api-key=[redacted] -u [redacted] https://[redacted]@host/clip ' +
      '[redacted] [redacted] "clip 1.mp4"',
  )
  expect(failure.message).toBe('false failed with exit code 1')
})
