import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** The versions that are compared. */
export const PEERS = {
  'graphile-worker': '0.18.0',
  'pg-boss': '12.38.0',
  plainjob: '0.0.14',
  bullmq: '6.7.0',
} as const

/** A folder of its own: the peers are no dependencies of the project. */
const FOLDER = join(import.meta.dirname, '../../node_modules/.cache/bench-peers')

const PACKAGE = JSON.stringify(
  {
    private: true,
    type: 'module',
    // Clients: pg for graphile-worker, which brings the same one, and ioredis for BullMQ.
    dependencies: { ...PEERS, pg: '8.23.1', ioredis: '6.0.0' },
    // pg-boss asks for a later version of what reads its recurring schedules; not every registry has it.
    overrides: { 'rrule-temporal': '2.2.7' },
  },
  null,
  2,
)
/** Imports from the folder that it lies in. */
const LOADER = 'export const load = (name) => import(name)\n'

/** Needs the npm registry the first time, and again when a version changes. */
export function installPeers(): void {
  const installed = join(FOLDER, 'installed.json')
  if (existsSync(installed) && readFileSync(installed, 'utf8') === PACKAGE) return
  process.stderr.write(`installing ${Object.keys(PEERS).join(', ')} into ${FOLDER}\n`)
  mkdirSync(FOLDER, { recursive: true })
  writeFileSync(join(FOLDER, 'package.json'), PACKAGE)
  writeFileSync(join(FOLDER, 'load.js'), LOADER)
  // No install script is needed: those of BullMQ's dependencies only add faster code for MessagePack.
  execFileSync('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts'], {
    cwd: FOLDER,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  writeFileSync(installed, PACKAGE)
}

/** A peer, or a client that it needs. */
export async function loadPeer<T>(name: string): Promise<T> {
  const { load } = (await import(join(FOLDER, 'load.js'))) as { load(name: string): Promise<T> }
  return load(name)
}
