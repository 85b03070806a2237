import { dirname, join, resolve } from 'node:path'
import { RedressError } from '../../core/errors.ts'
import type { Policy } from '../../core/policy/policy.ts'
import type { Clock } from '../../runtime/clock.ts'
import { Journal } from '../../runtime/journal.ts'
import type { Log } from '../../runtime/log.ts'
import type { Store, TypeDeclaration } from '../../store/contract/store.ts'
import { withWriteAhead } from '../../store/decorators/write-ahead.ts'
import { answerWithin, NO_ANSWER } from '../../worker/store-calls.ts'
import { notice } from '../default-log.ts'
import { defaultLocation, openDriver, placeOf, shownLocation } from './open-store.ts'

/** A PostgreSQL store that is not answered stops within 45 s. */
const STOP_MS_MAX = 60_000

interface AppStoreOptions {
  /** A store, or where one is. */
  store: string | Store | undefined
  /** Where `audit: 'write-ahead'` puts its lines; beside the store's file when left out. */
  failureLog: string | undefined
  clock: Clock
  log: () => Log
  /** Counts what goes through the store. */
  withTally: (store: Store) => Store
  /** How the failure log names the state of a waiting job of this type. */
  queuedAs: (type: string) => string | undefined
  types: () => TypeDeclaration[]
  /** Makes known to the store what else the program declares. */
  register: (store: Store) => Promise<void>
}

interface Opened {
  store: Store
  hasFailureLog: boolean
}

/** The store of an app: opened when it is first needed, with everything that the program declares registered in it. */
export class AppStore {
  readonly #options: AppStoreOptions
  readonly #default = defaultLocation()
  #opened: Opened | null = null
  #opening: Promise<Opened> | null = null
  #ready: Promise<Store> | null = null
  #isStopped = false

  constructor(options: AppStoreOptions) {
    this.#options = options
  }

  /** Null when the app was given a store, not a location. */
  get location(): string | null {
    const { store } = this.#options
    return typeof store === 'object' ? null : (store ?? this.#default.location)
  }

  /** The store, opened, with every job type and schedule declared so far registered in it. */
  get(): Promise<Store> {
    // An error is not kept: a store that was busy when the app began may answer the next call.
    this.#ready ??= this.#open().catch((error: unknown) => {
      this.#ready = null
      throw error
    })
    return this.#ready
  }

  /** Something new was declared: the next `get` registers it. */
  changed(): void {
    this.#ready = null
  }

  /** Tells the workers of this process to look for work now. */
  wake(): void {
    this.#opened?.store.wake()
  }

  /** From now on the store cannot be opened. */
  async end(): Promise<void> {
    this.#isStopped = true
    // A store that is just being opened must not be left open.
    await this.#opening?.catch(() => undefined)
  }

  async stop(): Promise<void> {
    if (this.#opened === null) return
    const { clock, log } = this.#options
    if ((await answerWithin(clock, STOP_MS_MAX, this.#opened.store.stop())) !== NO_ANSWER) return
    log().error({ waited_ms: STOP_MS_MAX }, 'the store did not stop in time; the app goes on without it')
  }

  /** The first line of a log: which store this is, and what named it. */
  #tellPlace(given: string | Store): void {
    const log = this.#options.log()
    const from = this.#options.store === undefined ? this.#default.from : 'the option `store`'
    const store = typeof given === 'string' ? shownLocation(given) : 'opened by the program'
    if (from !== 'DATABASE_URL') {
      notice(log, { store, from }, 'using this store')
      return
    }
    // Platforms set this variable for the program's own database: using it must not go unnoticed.
    const advice = 'to use another one, give redress() a `store` or set REDRESS_STORE'
    log.warn({ store, from }, `using this store, which DATABASE_URL names; ${advice}`)
  }

  async #open(): Promise<Store> {
    if (this.#isStopped) throw new RedressError('STORE_STOPPED', 'The app was stopped.')
    // Once, also when a type is declared meanwhile: nothing would stop a second connection pool.
    this.#opening ??= this.#openOnce()
    const { store, hasFailureLog } = await this.#opening.catch((error: unknown) => {
      this.#opening = null
      throw error
    })
    const types = this.#options.types()
    if (!hasFailureLog) refuseUnlogged(types)
    if (types.length > 0) await store.register({ types })
    await this.#options.register(store)
    return store
  }

  /**
   * The decorators of the store are stacked here, and only here: app -> tally -> write-ahead -> driver. The tally is
   * outside, so it counts a change only when its line is on disk and the driver has stored it.
   */
  async #openOnce(): Promise<Opened> {
    const { store: given = this.#default.location, failureLog, clock, log, withTally, queuedAs } = this.#options
    const place = typeof given === 'string' ? placeOf(given) : null
    this.#tellPlace(given)
    const driver = place === null ? (given as Store) : await openDriver(place, clock)
    const path = failureLog ?? (place?.kind === 'file' ? join(dirname(place.path), 'failures.jsonl') : null)
    const onLogBroken = (error: unknown) =>
      log().error({ err: error }, 'the failure log cannot be written; jobs that need it are not claimed for now')
    const logged =
      path === null
        ? driver
        : withWriteAhead(driver, new Journal(resolve(path)), onLogBroken, clock.setTimer.bind(clock), queuedAs)
    this.#opened = { store: withTally(logged), hasFailureLog: path !== null }
    return this.#opened
  }
}

/** `audit: 'write-ahead'` promises a line before each change, so it needs a place for the lines. */
function refuseUnlogged(types: readonly { name: string; policy: Policy }[]): void {
  const unlogged = types.find(({ policy }) => policy.audit === 'write-ahead')
  if (unlogged === undefined) return
  const message = `${unlogged.name} has audit 'write-ahead', but this store has no folder to keep the lines in.`
  throw new RedressError('OPTION_INVALID', message, { action: 'Give redress() a failureLog: the path of a file.' })
}
