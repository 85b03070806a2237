import { type App, RedressError } from 'redress'
import type { Caller } from 'redress/http'
import type { TokenRow } from './campaigns.ts'

/** Sends a token's job back to the queue with a fresh budget (W19, W31). False when it is not failed any more. */
export async function retryToken(app: App, caller: Caller, token: TokenRow): Promise<boolean> {
  try {
    await app.performAs(caller, 'jobs.retry', { id: token.id, reason: `the copy for ${token.recipient_name} again` })
    return true
  } catch (error) {
    // Somebody else was quicker.
    if (error instanceof RedressError && error.code === 'JOB_WRONG_STATE') return false
    throw error
  }
}
