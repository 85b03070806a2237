import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { serialize } from 'node:v8'
import { inProcess, inThread, redress } from 'redress'
import { describe, expect, onTestFinished, test } from 'vitest'
import { until } from '../../../../test/support/until.ts'
import { handlerThreads, IsolationScene, isAlive, isGone, KINDS, type Kind } from './scene.ts'

/** The thread or process of the next job, once that of the last one is gone. */
const who = (scene: IsolationScene) => scene.result({ do: 'who' })

const cancel = (scene: IsolationScene, id: string) => scene.app.jobs.cancel(id, { actor: 'ann', reason: 'wrong file' })

const isEnded = (kind: Kind, pid: number) =>
  kind === 'process' ? pid === 0 || isGone(pid) : until('the thread is gone', () => handlerThreads() === 0)

function scratch(): string {
  const folder = mkdtempSync(join(tmpdir(), 'redress-ending-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

describe.each(KINDS)('a handler in a %s', (kind) => {
  test('that blocks its thread for ever is killed when its job is cancelled, and not used again', async () => {
    const scene = new IsolationScene(kind, { options: { graceMs: 50 } })
    const before = await who(scene)
    const id = await scene.submit({ do: 'spin', begun: scene.begun })
    const pid = Number(await scene.hasBegun())
    await cancel(scene, id)
    expect(await scene.ended(id)).toMatchObject({ status: 'cancelled' })
    await isEnded(kind, pid)
    expect(await who(scene)).not.toBe(before)
  })

  test('can stop in order when its signal is aborted, and learns the reason', async () => {
    const scene = new IsolationScene(kind, { options: { graceMs: 60_000 } })
    const before = await who(scene)
    const id = await scene.submit({ do: 'stop-in-order', begun: scene.begun })
    await scene.hasBegun()
    await cancel(scene, id)
    expect(await scene.ended(id)).toMatchObject({ status: 'cancelled' })
    expect(readFileSync(scene.begun, 'utf8')).toBe('stopped: Cancelled')
    expect(await who(scene)).not.toBe(before)
  })

  test.each(['spin', 'hang'] as const)('is killed at its own time limit: %s', async (act) => {
    const scene = new IsolationScene(kind, { options: { graceMs: 50, timeout: '400ms' } })
    const { id } = await scene.run({ do: act, begun: scene.begun })
    expect((await scene.failures(id)).at(-1)).toMatchObject({
      code: 'TIMEOUT',
      detail: expect.stringContaining('400 ms'),
    })
    await isEnded(kind, existsSync(scene.begun) ? Number(await scene.hasBegun()) : 0)
  })

  test("is killed at the policy's time limit", async () => {
    const scene = new IsolationScene(kind, { options: { graceMs: 50 }, policy: { timeout: { attempt: '1s' } } })
    const id = await scene.submit({ do: 'spin', begun: scene.begun })
    const pid = Number(await scene.hasBegun())
    await scene.ended(id)
    expect((await scene.failures(id)).at(-1)).toMatchObject({ code: 'TIMEOUT' })
    await isEnded(kind, pid)
  })

  test('is killed when the lease is lost', async () => {
    const scene = new IsolationScene(kind, { options: { graceMs: 50 }, policy: { lease: { ttl: '1s' } } })
    const id = await scene.submit({ do: 'spin', begun: scene.begun })
    const pid = Number(await scene.hasBegun())
    await scene.app.jobs.markFailed(id, { actor: 'ann', reason: 'it hangs' })
    await until('the lease is lost', () => scene.log.lines.some(({ message }) => message.startsWith('lease lost')))
    await isEnded(kind, pid)
    expect(await scene.result({ do: 'return', value: 1 })).toBe(1)
  })

  test('is killed when the worker stops and its time to finish is over', async () => {
    const scene = new IsolationScene(kind, { policy: { shutdown: 'requeue' } })
    const id = await scene.submit({ do: 'spin', begun: scene.begun })
    const pid = Number(await scene.hasBegun())
    if (kind === 'thread') expect(handlerThreads()).toBe(1)
    await (await scene.worker).stop({ graceMs: 0 })
    expect(await scene.row(id)).toMatchObject({ status: 'queued' })
    await isEnded(kind, pid)
  })

  test('that is idle is ended when the worker stops', async () => {
    const scene = new IsolationScene(kind)
    const pid = Number.parseInt(String(await who(scene)), 10)
    await (await scene.worker).stop()
    if (kind === 'process') expect(isAlive(pid)).toBe(false)
    else expect(handlerThreads()).toBe(0)
  })

  test('that is idle for long is ended, and the next job gets a new one', async () => {
    const scene = new IsolationScene(kind, { options: { idleMs: 0 } })
    const before = await who(scene)
    await until('the next job has another one', async () => (await who(scene)) !== before)
  })

  test('that dies while it is idle costs the next job nothing', async () => {
    const scene = new IsolationScene(kind)
    for (let i = 0; i < 10; i++) {
      const pid = Number.parseInt(String(await who(scene)), 10)
      if (kind === 'process') process.kill(pid, 'SIGKILL')
      expect(await scene.result({ do: 'return', value: i })).toBe(i)
    }
  })

  test('that needs too much memory fails with MEMORY_LIMIT, and the worker goes on', async () => {
    const scene = new IsolationScene(kind, { options: { memoryMb: 64 } })
    const failure = await scene.failure({ do: 'heap' })
    expect(failure).toMatchObject({ code: 'MEMORY_LIMIT', detail: expect.stringContaining('limit of 64 MB') })
    expect(await scene.result({ do: 'return', value: 1 })).toBe(1)
  })

  test('cannot fill the memory with Buffers', async () => {
    const scene = new IsolationScene(kind, { options: { memoryMb: 96 } })
    expect(await scene.failure({ do: 'buffers' })).toMatchObject({
      code: 'MEMORY_LIMIT',
      detail: expect.stringMatching(/limit of 96 MB \(\d+ MB/),
    })
  })

  test('may use more Buffers than its limit one after the other', async () => {
    const scene = new IsolationScene(kind, { options: { memoryMb: 160 } })
    expect(await scene.result({ do: 'many-buffers' })).toBe('done')
  })

  test('has its whole time limit for its work when its module is slow to load', async () => {
    const file = join(scratch(), 'slow.mjs')
    const load = 'await new Promise((resolve) => setTimeout(resolve, 600))'
    const work = 'export default () => new Promise((resolve) => setTimeout(resolve, 600, 7))'
    writeFileSync(file, `${load}\n${work}\n`)
    const app = redress({ store: 'sqlite::memory:' })
    onTestFinished(() => app.stop({ graceMs: 0 }))
    const slow = app.job('slow', { run: (kind === 'thread' ? inThread : inProcess)(file, { timeout: '1s' }) })
    await app.work({ pollMs: 20 })
    expect(await slow.submitAndWait(null)).toBe(7)
  })

  test('is stopped at its time limit when its module never loads', async () => {
    const file = join(scratch(), 'stuck.mjs')
    writeFileSync(file, 'export default () => 1\n')
    const app = redress({ store: 'sqlite::memory:' })
    onTestFinished(() => app.stop({ graceMs: 0 }))
    const run = (kind === 'thread' ? inThread : inProcess)(file, { timeout: '300ms', graceMs: 0, fresh: true })
    const stuck = app.job('stuck', { policy: { retry: { max: 1 } }, run })
    await app.work({ pollMs: 20 })
    writeFileSync(file, 'await new Promise(() => setInterval(() => undefined, 1000))\nexport default () => 1\n')
    await expect(stuck.submitAndWait(null)).rejects.toMatchObject({ code: 'TIMEOUT' })
  })

  test.each([0, 7])(
    'that calls process.exit(%i) fails with HANDLER_CRASHED, and the next job gets a new one',
    async (code) => {
      const scene = new IsolationScene(kind)
      const before = await who(scene)
      expect(await scene.failure({ do: 'exit', code })).toMatchObject({
        code: 'HANDLER_CRASHED',
        fault: 'code',
        context: { exitCode: code },
      })
      expect(await who(scene)).not.toBe(before)
    },
  )

  test.each([
    ['reject-unhandled', 'no one waits for this'],
    ['throw-uncaught', 'thrown in a callback'],
  ] as const)('fails with the error that no code caught: %s', async (act, said) => {
    const scene = new IsolationScene(kind)
    const before = await who(scene)
    const failure = await scene.failure({ do: act })
    expect(failure).toMatchObject({ code: 'DECLINED', detail: expect.stringContaining(said) })
    expect(await who(scene)).not.toBe(before)
  })

  test('can send messages of its own to its parent, and the worker ignores them', async () => {
    const scene = new IsolationScene(kind)
    expect(await scene.result({ do: 'message-parent' })).toBe('sent')
    expect(await scene.result({ do: 'return', value: 1 })).toBe(1)
  })
})

describe('a handler in a process', () => {
  const body = [...serialize(null)]
  test.each([
    ['no message', [0, 0, 0, 4, 1, 2, 3, 4]],
    ['a message without an end', [0xff, 0xff, 0xff, 0xff, 1]],
    ['an empty message', [0, 0, 0, 0]],
    ['a message that is null', [0, 0, 0, body.length, ...body]],
  ])('that writes %s to the pipe of its worker is killed, and the worker goes on', async (_, bytes) => {
    const scene = new IsolationScene('process')
    expect(await scene.failure({ do: 'forge', bytes })).toMatchObject({ code: 'HANDLER_CRASHED' })
    expect(await scene.result({ do: 'return', value: 1 })).toBe(1)
  })

  test.each(['SIGSEGV', 'SIGKILL'] as const)(
    'that dies of %s fails with HANDLER_CRASHED and names the signal',
    async (signal) => {
      const scene = new IsolationScene('process')
      expect(await scene.failure({ do: 'kill', signal })).toMatchObject({
        code: 'HANDLER_CRASHED',
        context: { signal },
        detail: expect.stringContaining(`was killed by ${signal}`),
      })
      expect(await scene.result({ do: 'return', value: 1 })).toBe(1)
    },
  )

  test('is killed together with the programs that it started', async () => {
    const scene = new IsolationScene('process', { options: { graceMs: 50 } })
    const id = await scene.submit({ do: 'start-program', begun: scene.begun, next: 'spin' })
    const [own, program] = (await scene.hasBegun()).split(' ').map(Number)
    expect(isAlive(Number(program))).toBe(true)
    await cancel(scene, id)
    await scene.ended(id)
    await isGone(Number(own))
    await isGone(Number(program))
  })

  test('that ends leaves no program behind', async () => {
    const scene = new IsolationScene('process', { options: { fresh: true } })
    const program = await scene.result({ do: 'start-program', begun: scene.begun, next: 'return' })
    await isGone(Number(program))
  })

  test('adds what it printed to its failure, without secrets', async () => {
    const scene = new IsolationScene('process')
    const { context } = await scene.failure({ do: 'print', next: 'throw' })
    expect(context).toMatchObject({ stdoutTail: expect.stringContaining('a line on stdout') })
    expect(context.stderrTail).toContain('a line on stderr')
    expect(JSON.stringify(context)).not.toContain('hunter2')
    const next = await scene.failure({ do: 'throw', what: 'named' })
    expect(next.context).not.toHaveProperty('stdoutTail')
  })

  test('sees none of the environment of the worker but what every program gets, and what it is given', async () => {
    process.env.REDRESS_TEST_SECRET = 'hunter2'
    try {
      const scene = new IsolationScene('process', { options: { env: { COLOUR: 'blue' }, cwd: '/' } })
      const { env, cwd } = (await scene.result({ do: 'where' })) as { env: Record<string, string>; cwd: string }
      expect(env).toMatchObject({ COLOUR: 'blue', PATH: process.env.PATH })
      expect(Object.values(env)).not.toContain('hunter2')
      expect(cwd).toBe('/')
    } finally {
      delete process.env.REDRESS_TEST_SECRET
    }
  })

  test('reads only what its permissions allow', async () => {
    const scene = new IsolationScene('process', { options: { permissions: { read: ['/etc/hostname'] } } })
    expect(await scene.result({ do: 'return', value: 1 })).toBe(1)
    expect(await scene.result({ do: 'read-file', path: '/etc/hostname' })).toEqual(expect.any(String))
    expect(await scene.failure({ do: 'read-file', path: '/etc/passwd' })).toMatchObject({
      context: { errno: 'ERR_ACCESS_DENIED' },
    })
  })
  test.each([
    { net: true, isAllowed: true },
    // Node 24 cannot restrict the network.
    { net: false, isAllowed: !process.allowedNodeEnvironmentFlags.has('--allow-net') },
  ])('may use the network with permissions.net = $net: $isAllowed', async ({ net, isAllowed }) => {
    const server = createServer().listen(0, '127.0.0.1')
    onTestFinished(() => void server.close())
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const scene = new IsolationScene('process', { options: { permissions: { net } } })
    if (isAllowed) expect(await scene.result({ do: 'connect', port })).toBe('connected')
    else expect(await scene.failure({ do: 'connect', port })).toMatchObject({ context: { errno: 'ERR_ACCESS_DENIED' } })
  })
})
