import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { artifactStore } from 'redress/artifacts'
import { FetchFailure } from '../../src/failures/failure.ts'
import type { DownloadTask, Spooled } from '../../src/transfer/download.ts'
import { type OpenTransfer, openTransfer, type TransferOptions } from '../../src/transfer/transfer.ts'
import { openFiles } from './open-files.ts'

/** Short enough for a test that waits for them, long enough for a busy machine to answer first. */
export const LIMITS = { connectMs: 10_000, headersMs: 10_000, bodyMs: 10_000, wholeMs: 20_000, bytesMax: 2 ** 20 }

export interface Rig {
  transfer: OpenTransfer
  folder: string
  /** Downloads, and gives up at nothing but a failure. */
  get(task: DownloadTask | string, options?: { avoidProxy?: string | null; signal?: AbortSignal }): Promise<Spooled>
  /** How the download failed. */
  failure(task: DownloadTask | string, options?: { avoidProxy?: string | null }): Promise<FetchFailure>
  /** What lies in the work folder, and what is open there without a name. */
  left(): string[]
  stop(): Promise<void>
}

/** The transfer as the app opens it, on a folder. */
export async function rig(given: Partial<TransferOptions> = {}): Promise<Rig> {
  const folder = mkdtempSync(join(tmpdir(), 'redress-fetchbox-'))
  const work = join(folder, 'work')
  mkdirSync(work)
  const store = given.store ?? (await artifactStore({ url: `file:${join(folder, 'storage')}`, limits: {} }))
  const transfer = openTransfer({
    store,
    limits: LIMITS,
    spool: { folder: work },
    ...given,
  })
  const get: Rig['get'] = (task, { avoidProxy = null, signal = new AbortController().signal } = {}) =>
    transfer.download(typeof task === 'string' ? { url: task } : task, { avoidProxy, signal })
  return {
    transfer,
    folder,
    get,
    async failure(task, how) {
      const error = await get(task, how).then(
        () => new Error('it was downloaded'),
        (thrown: unknown) => thrown,
      )
      if (error instanceof FetchFailure) return error
      throw error
    },
    left: () => [...readdirSync(work), ...openFiles(work)],
    async stop() {
      await transfer.close()
      await store.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
