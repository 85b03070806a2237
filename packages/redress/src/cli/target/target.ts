import { RedressError } from '../../core/errors.ts'
import type { OpenTarget } from '../../http/app-module.ts'
import type { Parsed } from '../language/parse.ts'

/** An event of a live stream. */
export interface LiveEvent {
  /** Position in the stream; null for messages about the stream itself. */
  id: string | null
  event: string
  data: unknown
}

export interface FollowOptions {
  /** Without topics, all events that the caller may read. */
  topics: readonly string[]
  /** The id of the last event that was seen; from now on when it is null. */
  after: string | null
  signal: AbortSignal
  /** Called when the stream broke and reconnects. No event is lost. */
  onTrouble(why: string): void
  /** From now on nothing is missed. */
  onReady?(): void
}

/** Where operations are done: on the store itself, or by a server. */
export interface Target extends OpenTarget {
  follow(options: FollowOptions): AsyncIterable<LiveEvent>
  /** The address of the pages, as far as this command knows it. */
  server: string
}

/** Where `redress start` serves its pages when it is started with the same environment. */
export function addressHere(): string {
  const { REDRESS_PUBLIC_URL, REDRESS_SERVER, REDRESS_PORT } = process.env
  const port = REDRESS_PORT === undefined || !/^[1-9]\d*$/.test(REDRESS_PORT) ? '7373' : REDRESS_PORT
  return (REDRESS_PUBLIC_URL || REDRESS_SERVER || `http://127.0.0.1:${port}`).replace(/\/+$/, '')
}

export interface TargetOptions {
  /** A module with an app of the user's own; only for the store itself. */
  app?: string | undefined
}

/** An option wins over the environment; of two options that contradict each other, neither. */
export async function openTarget(values: Parsed['values'], { app }: TargetOptions = {}): Promise<Target> {
  const chosen = chosenServer(values, app)
  if (chosen !== null) return (await import('./remote.ts')).openRemote(chosen.address, values, chosen.isGiven)
  return (await import('./local.ts')).openLocal(values, app, addressHere())
}

/** The server to use; null for a local store. */
export function chosenServer(
  values: Parsed['values'],
  app?: string | undefined,
): { address: string; isGiven: boolean } | null {
  const { server, data, store } = values
  const named = process.env.REDRESS_SERVER || undefined
  if (typeof server === 'string') {
    const other = Object.entries({ data, store, app }).find(([, value]) => value !== undefined)?.[0]
    if (other !== undefined) throw twoPlaces(`--${other}`)
    return { address: server, isGiven: true }
  }
  if (data === undefined && store === undefined && app === undefined && named !== undefined) {
    return { address: named, isGiven: false }
  }
  if (values['token-file'] === undefined) return null
  throw new RedressError('USAGE', '--token-file needs a server.', { action: 'Add --server URL.' })
}

const twoPlaces = (other: string): RedressError =>
  new RedressError('USAGE', `--server and ${other} cannot be combined: the server has its own store.`, {
    action: 'Give only one of them.',
  })

/** Whether a server runs the operation. A server knows the actor by the token. */
export const isForServer = ({ server, data, store, app }: Parsed['values']): boolean =>
  server !== undefined ||
  (data === undefined && store === undefined && app === undefined && Boolean(process.env.REDRESS_SERVER))
