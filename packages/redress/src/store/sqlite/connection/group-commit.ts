import type { DatabaseSync } from 'node:sqlite'
import { RedressError } from '../../../core/errors.ts'
import { isBusy, storeError } from './errors.ts'

interface PendingWrite {
  doing: string
  run: () => unknown
  resolve: (value: unknown) => void
  reject: (error: unknown) => void
}

const BUSY_RETRY_MS_MAX = 8

/**
 * Calls made in one turn of the event loop share one transaction, and so one fsync; each is answered only after
 * that transaction is on disk. One call's error does not harm the others: the group is undone, and each of its
 * calls runs again in a transaction of its own.
 */
export class GroupCommit {
  readonly #database: DatabaseSync
  readonly #busyMsMax: number
  readonly #afterCommit: () => void
  readonly #afterRollback: () => void
  #pending: PendingWrite[] = []
  #isScheduled = false
  #busySinceMs: number | null = null
  #busyRetries = 0
  #isStopped = false

  constructor(
    database: DatabaseSync,
    busyMsMax: number,
    afterCommit: () => void,
    /** Caches that were filled inside a transaction are cleared here. */
    afterRollback: () => void = () => undefined,
  ) {
    this.#database = database
    this.#busyMsMax = busyMsMax
    this.#afterCommit = afterCommit
    this.#afterRollback = afterRollback
  }

  write<T>(doing: string, run: () => T): Promise<T> {
    if (this.#isStopped) {
      return Promise.reject(new RedressError('STORE_STOPPED', `The store was stopped before ${doing}.`))
    }
    return new Promise<T>((resolve, reject) => {
      this.#enqueue({ doing, run, resolve: resolve as (value: unknown) => void, reject })
    })
  }

  #enqueue(write: PendingWrite): void {
    this.#pending.push(write)
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(this.#flush)
  }

  /** Writes at once and in this call, whatever else is pending; waits for other processes without yielding. */
  writeNow<T>(run: () => T): T {
    this.#database.exec(`PRAGMA busy_timeout = ${this.#busyMsMax}`)
    this.#database.exec('BEGIN IMMEDIATE')
    return this.#finish(run)
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    while (this.#isScheduled) await new Promise<void>((resolve) => setImmediate(resolve))
  }

  readonly #flush = (): void => {
    try {
      this.#database.exec('BEGIN IMMEDIATE')
    } catch (error) {
      if (isBusy(error) && this.#waitsForOthers()) return
      this.#giveUp(error)
      return
    }
    this.#busySinceMs = null
    this.#busyRetries = 0
    const group = this.#pending
    this.#pending = []
    this.#isScheduled = false
    this.#commit(group)
    this.#afterCommit()
  }

  /** Another process is writing. Ask again soon, without holding up the handlers that run in this one. */
  #waitsForOthers(): boolean {
    const nowMs = performance.now()
    this.#busySinceMs ??= nowMs
    if (nowMs - this.#busySinceMs > this.#busyMsMax) return false
    this.#busyRetries++
    setTimeout(this.#flush, 1 + (this.#busyRetries % BUSY_RETRY_MS_MAX))
    return true
  }

  #giveUp(error: unknown): void {
    this.#busySinceMs = null
    this.#busyRetries = 0
    const group = this.#pending
    this.#pending = []
    this.#isScheduled = false
    for (const write of group) write.reject(storeError(error, write.doing))
  }

  #commit(group: readonly PendingWrite[]): void {
    let results: unknown[]
    try {
      results = this.#finish(() => group.map((write) => write.run()))
    } catch (error) {
      const [only] = group
      if (group.length === 1 && only !== undefined) only.reject(storeError(error, only.doing))
      else for (const write of group) this.#commitAlone(write)
      return
    }
    for (let i = 0; i < group.length; i++) (group[i] as PendingWrite).resolve(results[i])
  }

  #commitAlone(write: PendingWrite): void {
    try {
      this.#database.exec('BEGIN IMMEDIATE')
    } catch (error) {
      // Another process came in between: this call waits for it like any other, whatever its neighbour did.
      if (isBusy(error)) this.#enqueue(write)
      else write.reject(storeError(error, write.doing))
      return
    }
    try {
      write.resolve(this.#finish(write.run))
    } catch (error) {
      write.reject(storeError(error, write.doing))
    }
  }

  /** Runs the body of an open transaction and commits it, or leaves no trace of it. */
  #finish<T>(run: () => T): T {
    try {
      const result = run()
      this.#database.exec('COMMIT')
      return result
    } catch (error) {
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK')
      this.#afterRollback()
      throw error
    }
  }
}
