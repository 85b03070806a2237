import { randomInt } from 'node:crypto'
import { isMissing } from '@redress/shared/artifact-stores'
import { type App, type Attempt, type JobType, RedressError, rule } from 'redress'
import { z } from 'zod'
import { CODES, type Code } from './codes.ts'
import { existingResult, type Files, NotWellFormed, resultKey, sourceKey, TooMuchXml, wellFormed } from './files.ts'
import { callGateway, GatewayBusy, type GatewayCapacity, GatewayFailed } from './gateway-client.ts'
import { convertPolicy } from './policy.ts'
import type { Settings } from './settings.ts'

export const CONVERT = 'pdf.convert'

/** The facts about an upload that its job stores. */
const inputSchema = z.strictObject({
  fileName: z.string().min(1).max(255),
  mapping: z.string().min(1).max(100),
  bytes: z.int().min(0),
  sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .nullable(),
  /** Why it was turned away at the door: there is nothing to convert, but a record that it was tried. */
  refused: z.enum(['NOT_PDF', 'IO_ERROR']).nullable().default(null),
})
export type ConvertInput = z.input<typeof inputSchema>

export interface ConvertResult {
  fileName: string
  mapping: string
  pages: number | null
  parseMs: number | null
  bytes: number
  sha256: string
  /** An earlier attempt stored this result and died before it was recorded. */
  adopted: boolean
}

export interface ConvertOptions {
  files: Files
  settings: Settings
  /** Where the gateway is now: one that was started again may have another port. */
  gatewayUrl(): string
  capacity: GatewayCapacity
}

export function declareConvert(
  app: App,
  { files, settings, gatewayUrl, capacity }: ConvertOptions,
): JobType<ConvertInput> {
  return app.job(CONVERT, {
    queue: 'pdf-xml',
    input: inputSchema,
    codes: CODES,
    ownersSee: 'UNKNOWN',
    policy: convertPolicy(settings),
    slotsMax: () => capacity.slots,
    classify: [rule.timeout('GW_TIMEOUT'), rule.errno(['EIO', 'EROFS', 'EACCES', 'EMFILE'], 'IO_ERROR')],
    // Both keys follow from the id, so nothing must be known of how far the job came.
    removeFiles: async ({ id }, { signal }) => {
      await files.uploads.remove(sourceKey(id), { signal })
      await files.results.remove(resultKey(id), { signal })
    },
    admit: ({ refused }, submission) => {
      if (refused !== null) submission.fail(refused)
    },
    admitRetry: async ({ refused }, retry) => {
      // The upload was refused or could not be stored, so there is no file to convert.
      if (refused === 'NOT_PDF') retry.fail('NOT_PDF', { note: SEND_ANOTHER })
      if (refused !== null) retry.fail(refused, { note: 'The file was not stored. Send it again.' })
      if (FINAL_FOR_FILE.has(String(retry.failure?.context.gatewayCode))) retry.fail('GW_4XX', { note: SEND_ANOTHER })
      try {
        await files.uploads.head(sourceKey(retry.jobId))
      } catch (error) {
        if (isMissing(error)) retry.fail('EXPIRED')
        throw error
      }
    },
    run: async (input, attempt): Promise<ConvertResult> => {
      const fileName = `${input.fileName.replace(/\.pdf$/i, '')}.xml`
      const before = await storing(attempt, () => existingResult(files.results, attempt.jobId))
      if (before !== null)
        return { fileName, mapping: input.mapping, pages: null, parseMs: null, ...before, adopted: true }
      return attempt.stage('gateway', {}, async () => {
        const { body } = await storing(attempt, () => openSource(files, attempt))
        try {
          const {
            body: xml,
            mapping,
            pages,
            parseMs,
          } = await callGateway({
            url: gatewayUrl(),
            mapping: input.mapping,
            source: body,
            timeoutMs: settings.gateway.timeoutMs,
            waitMs: settings.gateway.waitMs,
            learnParsers: (parsers) => capacity.learn(parsers),
            signal: attempt.signal,
            traceparent: attempt.traceparent,
          })
          const stored = await files.results.put(resultKey(attempt.jobId), wellFormed(xml), {
            contentType: 'application/xml',
            signal: attempt.signal,
          })
          return { fileName, mapping, pages, parseMs, bytes: stored.bytes, sha256: stored.sha256, adopted: false }
        } catch (error) {
          fail(attempt, error)
        } finally {
          body.destroy()
        }
      })
    },
  })
}

/** The gateway's codes for files that would fail again in the same way. */
const FINAL_FOR_FILE: ReadonlySet<string> = new Set([
  'PARSE_ERROR',
  'ENCRYPTED',
  'NO_TEXT_LAYER',
  'TOO_MANY_PAGES',
  'RESULT_TOO_LARGE',
])
const SEND_ANOTHER = 'The same file would fail again: send another one.'

async function openSource({ uploads }: Files, attempt: Attempt<Code>) {
  try {
    return await uploads.get(sourceKey(attempt.jobId), { signal: attempt.signal, verify: true })
  } catch (error) {
    if (isMissing(error)) attempt.fail('EXPIRED', { detail: 'the source no longer exists' })
    throw error
  }
}

async function storing<T>(attempt: Attempt<Code>, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    fail(attempt, error)
  }
}

/** Ends the attempt with one of the ten codes (E2 E7). */
function fail(attempt: Attempt<Code>, error: unknown): never {
  // Neither the document nor the gateway is at fault: it costs no attempt and does not count in the breaker.
  if (error instanceof GatewayBusy) attempt.snooze(holdMs(attempt.number, error.retryAfterMs), error.message)
  if (error instanceof GatewayFailed) {
    const { code, status, note, retryAfterMs, isFinal, gatewayCode, message, cause } = error
    attempt.fail(code, {
      detail: message,
      cause,
      final: isFinal,
      ...(status !== null && { context: { httpStatus: status, ...(gatewayCode !== null && { gatewayCode }) } }),
      ...(note !== null && { note }),
      ...(retryAfterMs !== null && { retryAfter: retryAfterMs }),
    })
  }
  if (error instanceof NotWellFormed) {
    attempt.fail('GW_5XX', { detail: `the gateway sent malformed XML: ${error.message}` })
  }
  if (error instanceof TooMuchXml) {
    attempt.fail('GW_4XX', {
      detail: 'the gateway sent more XML than the limit for one file',
      note: 'The resulting XML is too large.',
    })
  }
  if (error instanceof RedressError) {
    // D8: a full disk stays full until a person acts, and a damaged file stays damaged. Neither is retried.
    const final = error.code === 'STORAGE_FULL' || error.code === 'ARTIFACT_CORRUPT'
    attempt.fail('IO_ERROR', { detail: error.message, context: { storage: error.code }, final })
  }
  throw error
}

const HOLD_MS_MIN = 1_000
const HOLD_MS_MAX = 30_000
/** A Retry-After counts up to a day, as for retries (`retry.retryAfterMax`). */
const ASKED_MS_MAX = 86_400_000

/**
 * Grows each time, is never below the gateway's Retry-After, and has jitter, so that refused documents do not return
 * at once.
 */
function holdMs(attempt: number, retryAfterMs: number): number {
  const ms = Math.max(Math.min(retryAfterMs, ASKED_MS_MAX), Math.min(HOLD_MS_MAX, HOLD_MS_MIN * 2 ** (attempt - 1)))
  return Math.round((ms * randomInt(100, 200)) / 100)
}
