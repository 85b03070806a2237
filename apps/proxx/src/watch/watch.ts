import { randomUUID } from 'node:crypto'
import { mkdir, readdir, rename, rmdir } from 'node:fs/promises'
import { resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { synced } from '@redress/shared/files'
import { RedressError } from 'redress'
import type { Target } from '../cli/target.ts'
import { errnoOf, isThere } from '../paths.ts'
import { namingProblem } from '../spec/naming.ts'
import { PROFILES } from '../spec/profiles.ts'
import { DONE, isMarker, type Look, lookAt, type MediaRule, specOf } from './dropped.ts'
import { Folders, type Ticket } from './folders.ts'

export interface WatchOptions {
  target: Pick<Target, 'show' | 'submit'>
  folder: string
  /** How media become jobs; null if only specs are accepted. */
  media: MediaRule | null
  /** An item is taken when it has not changed for this long. */
  settleMs: number
  /** It is taken when there is a file of its name with `.done` behind it, and not before. */
  needsMarker: boolean
  signal: AbortSignal
  say(event: WatchEvent): void
  /** The clock for that. */
  nowMs?(): number
}

export interface WatchEvent {
  event: 'watching' | 'submitted' | 'completed' | 'failed' | 'orphaned' | 'left' | 'left-out' | 'trouble'
  name: string | null
  jobId: string | null
  message: string
}

const LOOK_MS = { min: 20, max: 1_000 }
/** Several: that is what the names of its outputs must do for. */
const CLIPS_OF_A_CARD = 2

/**
 * Makes jobs of items that are dropped into `pending`. All state is on the disk, and every step is idempotent: the
 * move that takes an item also gives it the id of its job. So after a crash the next watcher submits the same job.
 */
export async function watchFolder(options: WatchOptions): Promise<void> {
  if (options.media !== null) refuseWrongRule(options.media)
  const folders = new Folders(resolve(options.folder))
  await mkdir(folders.root, { recursive: true })
  const unlock = folders.lock()
  try {
    await folders.make()
    await new Watch(folders, options).run()
  } finally {
    unlock()
  }
}

/** A wrong rule would fail the job of every card, so it is refused at the start. */
function refuseWrongRule({ profile, naming }: MediaRule): void {
  if (!PROFILES.has(profile)) {
    const action = `Choose one of ${[...PROFILES.keys()].join(', ')}.`
    throw new RedressError('OPTION_INVALID', `There is no profile ${profile}.`, { action })
  }
  const why = namingProblem(naming, CLIPS_OF_A_CARD)
  if (why !== null) throw new RedressError('OPTION_INVALID', `--naming ${naming}: ${why}.`)
}

class Watch {
  readonly #folders: Folders
  readonly #options: WatchOptions
  /** By path: how it looked, and since when it has looked so. */
  readonly #seen = new Map<string, { signature: string; sinceMs: number }>()
  readonly #open = new Map<string, Ticket | null>()
  /** The last message about each item, so that none is repeated. */
  readonly #said = new Map<string, string>()

  constructor(folders: Folders, options: WatchOptions) {
    this.#folders = folders
    this.#options = options
  }

  async run(): Promise<void> {
    const { signal, settleMs, say } = this.#options
    await this.#folders.clearRunning()
    for (const id of await this.#folders.unfinished()) this.#open.set(id, await this.#folders.ticket(id))
    say({ event: 'watching', name: null, jobId: null, message: `Watching ${this.#folders.path('pending')}` })
    const everyMs = Math.min(LOOK_MS.max, Math.max(LOOK_MS.min, settleMs / 4))
    while (!signal.aborted) {
      await this.#round()
      await setTimeout(everyMs, undefined, { signal }).catch(() => undefined)
    }
  }

  async #round(): Promise<void> {
    await this.#guarded('pending', () => this.#takeAll())
    for (const id of [...this.#open.keys()]) {
      if (this.#options.signal.aborted) return
      await this.#guarded(id, () => this.#advance(id))
    }
  }

  /** Transient errors are retried. Other errors end the watch, and the next watcher continues from the disk. */
  async #guarded(whose: string, work: () => Promise<void>): Promise<void> {
    try {
      await work()
      this.#said.delete(whose)
    } catch (error) {
      const isFinal = error instanceof RedressError && (error.exitCode === 3 || error.exitCode === 4)
      if (isFinal || !(error instanceof RedressError || /^E[A-Z0-9]+$/.test(errnoOf(error)))) throw error
      this.#sayOnce(whose, { event: 'trouble', name: null, jobId: null, message: (error as Error).message })
    }
  }

  #sayOnce(whose: string, event: WatchEvent): void {
    // A server that is away is away for all jobs that wait for it.
    const isSaid = [...this.#said.values()].includes(event.message)
    this.#said.set(whose, event.message)
    if (!isSaid) this.#options.say(event)
  }

  async #takeAll(): Promise<void> {
    const names = await this.#folders.dropped()
    const paths = new Set(names.map((name) => this.#folders.path('pending', name)))
    // A later item of the same name is a different one, with its own messages.
    for (const known of [this.#seen, this.#said]) {
      for (const path of known.keys()) {
        if (path.startsWith(this.#folders.path('pending', '/')) && !paths.has(path)) known.delete(path)
      }
    }
    for (const name of names) {
      if (isMarker(name)) continue
      if (this.#options.needsMarker && !names.includes(name + DONE)) continue
      // One that cannot be read or moved must not hold up those behind it.
      await this.#guarded(`take ${name}`, () => this.#takeSettled(name))
    }
  }

  async #takeSettled(name: string): Promise<void> {
    const path = this.#folders.path('pending', name)
    const look = await lookAt(path)
    if (look === null) return
    // Also before it is left: a card may be empty for as long as its first clip is copied.
    if (!this.#options.needsMarker && !this.#isSettled(path, look)) return
    if (this.#takes(look)) await this.#take(name)
    else this.#sayLeft(path, name, look)
  }

  #takes({ kind, unfinished }: Look): boolean {
    if (unfinished !== null) return false
    return kind === 'spec' || (this.#options.media !== null && (kind === 'media' || kind === 'card'))
  }

  #sayLeft(path: string, name: string, { kind, unfinished }: Look): void {
    const why =
      unfinished !== null
        ? `${unfinished === name ? 'it' : `${unfinished} in it`} is not copied to its end yet`
        : kind === 'link'
          ? 'it is a link, and links are not followed'
          : kind === 'other'
            ? 'it is neither a spec nor media'
            : 'it is media, and there is no --profile for it'
    const message = `${name} is left where it is: ${why}.`
    this.#sayOnce(path, { event: 'left', name, jobId: null, message })
  }

  #isSettled(path: string, { signature }: Look): boolean {
    const nowMs = this.#options.nowMs?.() ?? performance.now()
    const before = this.#seen.get(path)
    if (before?.signature === signature) return nowMs - before.sinceMs >= this.#options.settleMs
    this.#seen.set(path, { signature, sinceMs: nowMs })
    return this.#options.settleMs === 0
  }

  /** The marker goes first: it says what belongs here if the second move never came. */
  async #take(name: string): Promise<void> {
    const id = randomUUID()
    const from = this.#folders.path('pending', name)
    const to = this.#folders.path('taken', id, name)
    await mkdir(this.#folders.path('taken', id))
    try {
      if (this.#options.needsMarker) await rename(from + DONE, to + DONE)
      await rename(from, to)
    } catch (error) {
      if (await isThere(to + DONE)) await rename(to + DONE, from + DONE)
      await rmdir(this.#folders.path('taken', id))
      const errno = errnoOf(error)
      // Renamed or removed in this moment.
      if (errno === 'ENOENT') return
      const why = errno === 'EXDEV' ? 'they are not on one disk' : errno
      // Without the id, which differs every time: the message is printed once.
      throw Object.assign(new Error(`${name} cannot be moved from pending to taken: ${why}.`), { code: errno })
    }
    const before = this.#seen.get(from)
    if (before !== undefined) this.#seen.set(to, before)
    this.#seen.delete(from)
    await synced(this.#folders.path('taken', id))
    await synced(this.#folders.path('taken'))
    this.#open.set(id, null)
  }

  /** Moves a taken item one step further, from its current state. */
  async #advance(id: string): Promise<void> {
    const ticket = this.#open.get(id) ?? (await this.#ticketOf(id))
    if (ticket === null) return
    const { target } = this.#options
    let job = await target.show(id)
    if (job === null && ticket.job !== null) {
      const message = `Job ${id} of ${ticket.name} was submitted, and is not in this store.`
      this.#sayOnce(`lost ${id}`, { event: 'trouble', name: ticket.name, jobId: id, message })
      return
    }
    if (job === null) {
      try {
        job = await target.submit(ticket.spec, id)
      } catch (error) {
        if (!(error instanceof RedressError) || error.exitCode !== 2) throw error
        return this.#finish('failed', { ...ticket, refusal: error.toJSON() }, error.message)
      }
      this.#tell('submitted', ticket, `${ticket.name} is job ${id}.`)
    }
    const now = { ...ticket, job }
    if (job.status === 'complete') return this.#finish('completed', now, 'complete')
    if (job.status === 'failed') return this.#finish('failed', now, `${job.error?.code}: ${job.error?.message}`)
    const isChanged = ticket.job?.status !== job.status || ticket.job.orphanedAt !== job.orphanedAt
    if (!isChanged) return
    await this.#folders.writeRunning(now)
    this.#open.set(id, now)
    // Its time changes once more, from the end of the lease to the report of the orphan. It is announced only once.
    const wasOrphan = (ticket.job?.orphanedAt ?? null) !== null
    if (job.orphanedAt !== null && !wasOrphan)
      this.#tell('orphaned', now, `Job ${id} is an orphan: its worker is silent.`)
  }

  async #finish(outcome: 'completed' | 'failed', ticket: Ticket, message: string): Promise<void> {
    await this.#folders.writeResult(outcome, ticket)
    this.#open.delete(ticket.jobId)
    this.#tell(outcome, ticket, `${ticket.name}, job ${ticket.jobId}: ${message}`)
  }

  #tell(event: WatchEvent['event'], { name, jobId }: Ticket, message: string): void {
    this.#options.say({ event, name, jobId, message })
  }

  /** Null while it is still written to, and when nothing was taken after all. */
  async #ticketOf(id: string): Promise<Ticket | null> {
    const name = await this.#nameOf(id)
    if (name === null) {
      this.#open.delete(id)
      return null
    }
    const path = this.#folders.path('taken', id, name)
    const look = await lookAt(path)
    // A program may have had it open while it was moved.
    const isMarked = await isThere(path + DONE)
    if (look === null || !(isMarked || this.#isSettled(path, look))) return null
    if (!this.#takes(look)) {
      this.#sayLeft(path, name, look)
      return null
    }
    const spec = await specOf(path, look.kind, this.#options.media)
    if (look.leftOut !== null) {
      const message = `${name}: what in it is no clip is not in its job: ${look.leftOut}.`
      this.#options.say({ event: 'left-out', name, jobId: id, message })
    }
    const ticket: Ticket = { version: 1, name, jobId: id, spec, job: null, refusal: null }
    await this.#folders.writeRunning(ticket)
    this.#open.set(id, ticket)
    this.#seen.delete(path)
    return ticket
  }

  async #nameOf(id: string): Promise<string | null> {
    const names = await readdir(this.#folders.path('taken', id))
    const taken = names.find((name) => !isMarker(name))
    if (taken !== undefined) return taken
    const [marker] = names
    if (marker === undefined) {
      await rmdir(this.#folders.path('taken', id))
      return null
    }
    const name = marker.slice(0, -DONE.length)
    const from = this.#folders.path('pending', name)
    if (!(await isThere(from))) return null
    await rename(from, this.#folders.path('taken', id, name))
    return name
  }
}
