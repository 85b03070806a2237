import type { Refused } from '@redress/shared/routes'
import { type Log, RedressError } from 'redress'
import { uploadFailure } from '../transfer/upload.ts'
import { isRetryable } from './failure.ts'
import { refusal } from './refusals.ts'

/** Waits between tries. Given, so that a test need not wait. */
export type Pause = (ms: number) => Promise<void>

export const realPause: Pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

export interface IngestRetries {
  pause: Pause
  log: Log
}

const TRIES_MAX = 3
const BASE_MS = 100

/** Error codes of the engine for a store that may answer later. */
const STORE_AWAY: ReadonlySet<string> = new Set([
  'STORE_UNREACHABLE',
  'STORE_BUSY',
  'STORE_FAILED',
  'STORE_FULL',
  'STORE_NOT_FOUND',
])
const STORAGE_AWAY: ReadonlySet<string> = new Set(['STORAGE_FAILED', 'STORAGE_FULL'])

/** Retries transient errors before the client gets a 503 (F6): three tries, with doubling waits. */
export async function retryTransient<T>(
  what: string,
  work: () => Promise<T>,
  { pause, log }: IngestRetries,
): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work()
    } catch (error) {
      const trouble = troubleOf(error)
      if (trouble === null) throw error
      const isLast = tries === TRIES_MAX || !trouble.mayPass
      const fields = { event: 'ingest_trouble', what, tries, error_code: trouble.refused.refusal.code, err: error }
      if (isLast) {
        log.error(fields, 'a client was asked to retry later')
        throw trouble.refused
      }
      log.warn(fields, 'retrying')
      await pause(BASE_MS * 2 ** (tries - 1))
    }
  }
}

interface Trouble {
  refused: Refused
  mayPass: boolean
}

function troubleOf(error: unknown): Trouble | null {
  if (!(error instanceof RedressError)) return null
  if (STORE_AWAY.has(error.code)) return { refused: refusal('SYSTEM_STORE_UNAVAILABLE'), mayPass: true }
  if (!STORAGE_AWAY.has(error.code)) return null
  const code = error.code === 'STORAGE_FULL' ? 'STORAGE_FULL' : 'STORAGE_UNAVAILABLE'
  // Wrong credentials or a missing bucket do not pass by themselves. The operator must correct them, not the client.
  return { refused: refusal(code), mayPass: isRetryable(uploadFailure(error, 'the manifest').code) }
}
