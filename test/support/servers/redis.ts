import { type ChildProcess, spawn } from 'node:child_process'
import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { until } from '../until.ts'

/** Debian's `redis-tools` has the server under the name of a tool: which one it is depends on the name it is called by. */
const NAMES = ['redis-server', 'valkey-server', 'redis-check-rdb']

/** The program of a Redis server; null where none is installed. npm has none. */
export const REDIS: string | null =
  NAMES.flatMap((name) => (process.env.PATH ?? '').split(delimiter).map((dir) => join(dir, name))).find(isProgram) ??
  null

export const NO_REDIS = 'there is no redis-server here: run `apt-get install redis-tools` or install Redis'

export interface TestRedis {
  url: string
  pid: number
  stop(): Promise<void>
}

/** A real Redis with nothing in it, which keeps nothing on disk unless `settings` say so. */
export async function startRedis(settings: readonly string[] = ['--appendonly', 'no']): Promise<TestRedis> {
  if (REDIS === null) throw new Error(NO_REDIS)
  const dir = mkdtempSync(join(tmpdir(), 'redress-redis-'))
  const port = await freePort()
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--dir', dir, ...settings]
  const child = spawn(REDIS, args, { argv0: 'redis-server', stdio: 'ignore' })
  await until('Redis answers', () => answers(port))
  return {
    url: `redis://127.0.0.1:${port}`,
    pid: child.pid as number,
    async stop() {
      await ended(child)
      rmSync(dir, { recursive: true, force: true })
    },
  }
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise<void>((resolve) => server.close(() => resolve()))
  return port
}

const answers = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => resolve(false))
    socket.on('data', () => {
      resolve(true)
      socket.destroy()
    })
    socket.on('connect', () => socket.write('PING\r\n'))
  })

const ended = (child: ChildProcess): Promise<void> =>
  new Promise((resolve) => {
    child.on('exit', () => resolve())
    child.kill('SIGKILL')
  })
