import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { checkOptions } from '../../src/programs/options.ts'
import { LineSplitter, Tail } from '../../src/programs/output.ts'
import { runProgram } from '../../src/programs/run.ts'
import { Stopper } from '../../src/programs/stopper.ts'
import { failureOf, node, onLinux, scratch, script } from './programs.ts'

const file = scratch()

test('stdout can go to a file, which the program writes itself', async () => {
  writeFileSync(file('out'), 'what was there before')
  const { stdout } = await runProgram({ ...script('printf "a\\377b"'), stdout: { file: file('out') } })
  expect(stdout).toBe('')
  expect(readFileSync(file('out'))).toEqual(Buffer.from([0x61, 0xff, 0x62]))
})

test('stdout as text is bounded: more is a failure, and the program is stopped', async () => {
  const exact = { program: 'head', args: ['-c', '1000', '/dev/zero'], stdout: 'text', stdoutBytesMax: 1000 } as const
  expect((await runProgram(exact)).stdout.length).toBe(1000)
  const failure = await failureOf({ program: 'yes', stdout: 'text', stdoutBytesMax: 1000 })
  expect(failure).toMatchObject({
    message: 'yes wrote more to stdout than the 1000 bytes that are kept (SIGTERM)',
    reason: 'output-too-large',
    code: 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER',
    signal: null,
  })
})

test('a program that failed by itself is not hidden by an output that did not fit', async () => {
  const facts = { stderrTail: '', durationMs: 0 }
  const stopper = new Stopper(checkOptions({ program: 'x', timeoutMs: Number.POSITIVE_INFINITY }), {
    signal: () => expect.unreachable('it has ended already'),
  })
  stopper.disarm()
  stopper.stop({ reason: 'output-too-large', bytesMax: 5 })
  stopper.throwIfStopped(facts, [], true)
  expect(() => stopper.throwIfStopped(facts, [], false)).toThrow(
    'x wrote more to stdout than the 5 bytes that are kept',
  )
})

test('progress comes line by line, whatever ends a line', async () => {
  const lines: string[] = []
  const onLine = (line: string) => lines.push(line)
  await runProgram({ ...script('printf "frame=1\\rframe=2\\r\\nprogress=end\\n\\nlast"'), stdout: { onLine } })
  expect(lines).toEqual(['frame=1', 'frame=2', 'progress=end', '', 'last'])
})

test('lines come while the program runs', async () => {
  const abort = new AbortController()
  const heard: string[] = []
  const failure = await failureOf({
    ...script('echo ready >&2; sleep 600'),
    signal: abort.signal,
    onStderrLine: (line) => {
      heard.push(line)
      abort.abort()
    },
  })
  expect(heard).toEqual(['ready'])
  expect(failure.reason).toBe('aborted')
})

test('lines are the same however their bytes are cut into chunks', () => {
  const bytes = Buffer.from('ü1\r\n2\r3\n\n\r\nlong ü line\nend')
  for (let size = 1; size <= bytes.length; size++) {
    const lines: string[] = []
    const splitter = new LineSplitter(6, (line) => lines.push(line))
    for (let at = 0; at < bytes.length; at += size) splitter.take(bytes.subarray(at, at + size))
    splitter.end()
    // Half of the second ü is the sixth byte.
    expect(lines).toEqual(['ü1', '2', '3', '', '', 'long …', 'end'])
  }
})

test('a huge line is cut', async () => {
  const lines: string[] = []
  const text = 'process.stderr.write("x".repeat(5_000_000) + "\\nshort\\n")'
  await runProgram({ ...node(text), onStderrLine: (line) => lines.push(line), lineBytesMax: 100 })
  expect(lines).toEqual([`${'x'.repeat(100)}…`, 'short'])
})

test('ten megabytes of stderr go to the file, and their end into the result [P24]', async () => {
  const text = 'for (let i = 0; i < 100_000; i++) console.error(String(i).padStart(99, "."))'
  writeFileSync(file('log'), 'earlier attempt\n')
  const { stderrTail } = await runProgram({ ...node(text), stderrFile: file('log') })
  expect(Buffer.byteLength(stderrTail)).toBe(4096)
  expect(stderrTail.endsWith('.99999\n')).toBe(true)
  const log = readFileSync(file('log'), 'utf8')
  expect(log.length).toBe(16 + 10_000_000)
  expect(log.startsWith('earlier attempt\n')).toBe(true)
  expect(log.slice(16).split('\n')[50_000]).toMatch(/\.50000$/)
})

test('of a stderr beyond its bound the file keeps the beginning and the end', async () => {
  const text = 'for (let i = 0; i < 1000; i++) console.error("line " + i)'
  await runProgram({ ...node(text), stderrFile: file('log'), stderrBytesMax: 20, stderrTailBytes: 256 })
  const log = readFileSync(file('log'), 'utf8')
  expect(log).toMatch(/^line 0\nline 1\nline 2\n?[\s\S]*\n\[\d+ bytes left out\]\n[\s\S]*line 999\n$/)
  const whole = Array.from({ length: 1000 }, (_, i) => `line ${i}\n`).join('')
  const missing = Number(/\[(\d+) bytes/.exec(log)?.[1])
  expect(missing).toBe(whole.length - 20 - 4 * 256)
})

test('the file of stderr is for its owner alone: it is not redacted', async () => {
  await runProgram({ ...script('echo password=hunter2 >&2'), stderrFile: file('log') })
  expect(readFileSync(file('log'), 'utf8')).toBe('password=hunter2\n')
  expect(statSync(file('log')).mode & 0o777).toBe(0o600)
})

test.runIf(onLinux)('a full disk is a failure, and the program does not hang on it', async () => {
  const failure = await failureOf({ ...script('echo a >&2; exec sleep 600'), stderrFile: '/dev/full' })
  expect(failure).toMatchObject({ reason: 'io', code: 'ENOSPC', stderrTail: 'a\n' })
})

test('the tail is redacted, whole characters, and valid text', async () => {
  const bytes =
    'Buffer.concat([Buffer.from("ü".repeat(3000)), Buffer.from([0xff, 0xfe, 10]), Buffer.from("token=abc123\\n")])'
  const { stderrTail } = await runProgram({ ...node(`process.stderr.write(${bytes})`), stderrTailBytes: 1001 })
  expect(stderrTail).toMatch(/^ü+��\ntoken=\[redacted\]\n$/)
  expect(Buffer.byteLength(stderrTail)).toBeLessThanOrEqual(1001)
})

test('a secret that stands across the beginning of the tail does not show its end', () => {
  const tail = new Tail(20)
  tail.take(Buffer.from(`password=${'s'.repeat(60)} and then`))
  expect(tail.text()).toBe('=[redacted] and then')
})

test('the tail of something written byte by byte is the same', () => {
  const tail = new Tail(10)
  for (let i = 0; i < 5000; i++) tail.take(Buffer.from(String(i % 10)))
  expect(tail.text()).toBe('0123456789')
})

test('what a callback throws stops the program and is thrown unchanged', async () => {
  const trouble = new Error('not what I wanted to hear')
  let calls = 0
  const onLine = () => {
    calls++
    throw trouble
  }
  await expect(runProgram({ program: 'yes', stdout: { onLine } })).rejects.toBe(trouble)
  expect(calls).toBe(1)
  const onStderrLine = () => Promise.reject(trouble) as unknown as undefined
  await expect(runProgram({ ...script('echo a >&2; exec sleep 600'), onStderrLine })).rejects.toBe(trouble)
})
