import { join, resolve } from 'node:path'
import { storeUrl } from '@redress/shared/artifact-stores'
import { type Environment, place, readKnobs, storePlace, whole } from '@redress/shared/settings'
import { RedressError } from 'redress'
import { z } from 'zod'
import { Mappings } from './gateway/mappings.ts'

/** 50 MB, counted as file managers do: 50 times 1,048,576 bytes. */
export const UPLOAD_BYTES_MAX = 50 * 2 ** 20

/** A mapping that may be asked for: `delivery`, or `delivery@2`. */
export interface OfferedMapping {
  name: string
  title: string
  versions: readonly number[]
}

/** 0.5, or 50 for people who think in percent. */
const share = z.coerce
  .number()
  .gt(0)
  .max(100)
  .transform((value) => (value > 1 ? value / 100 : value))

const DAY_MS = 86_400_000
const MEBIBYTE = 2 ** 20
const WAIT_MS_MIN = 30_000

/** The knobs of E29 that are this app's own; DATABASE_URL and WORKER_CONCURRENCY are the engine's. */
const KNOBS = z.object({
  RETRY_MAX_ATTEMPTS: whole(1, 100, 3),
  RETRY_BASE_DELAY_MS: whole(1, DAY_MS, 5_000),
  RETRY_JITTER_MAX_MS: whole(0, DAY_MS, 5_000),
  RETRY_BACKOFF: z.enum(['exponential', 'table']).default('exponential'),
  WORKER_LEASE_TTL_SEC: whole(1, 86_400, 90),
  GATEWAY_TIMEOUT_MS: whole(1, DAY_MS, 60_000),
  CIRCUIT_WINDOW: whole(1, 100_000, 20),
  CIRCUIT_FAIL_THRESHOLD: share.default(0.5),
  CIRCUIT_COOLDOWN_MS: whole(1, DAY_MS, 30_000),
  CIRCUIT_MODE: z.enum(['hold', 'fail-fast']).default('hold'),
  GATEWAY_URL: z
    .url({ protocol: /^https?$/ })
    // The client appends the path of each request to it.
    .refine((url) => !/[?#]/.test(url), 'must end with a path')
    .optional(),
  UPLOADS_DIR: storePlace,
  RESULTS_DIR: storePlace,
  UPLOADS_KEEP_DAYS: whole(1, 3_650, 7),
  RESULTS_KEEP_DAYS: whole(1, 3_650, 30),
  DISK_FREE_SOFT_MB: whole(0, 100_000_000, 512),
  DISK_FREE_HARD_MB: whole(0, 100_000_000, 64),
  VISITOR_UPLOADS_PER_HOUR: whole(0, 1_000, 100),
  VISITOR_KEPT_MB: whole(0, 1_000_000, 1_000),
  // A gateway with one parser gets two documents at once; one address may have only one of these.
  VISITOR_CONCURRENCY: whole(1, 1_000, 1),
  VISITOR_BACKLOG: whole(0, 1_000_000, 1_000),
  ADDRESS_UPLOADS_PER_HOUR: whole(0, 1_000_000, 300),
  ADDRESS_MB_PER_DAY: whole(0, 100_000_000, 4_000),
  MAPPINGS_DIR: place,
  SESSION_SECRET: z.string().min(32, 'must have at least 32 characters').optional(),
})

export const KNOB_NAMES: readonly string[] = Object.keys(KNOBS.shape)

export type Settings = ReturnType<typeof readSettings>

/** Reads the settings. Reports all invalid values at once, by name. */
export function readSettings(env: Environment, home: string) {
  const knobs = readKnobs(KNOBS, env, 'pdf-xml')
  return {
    home,
    retry: {
      attemptsMax: knobs.RETRY_MAX_ATTEMPTS,
      baseMs: knobs.RETRY_BASE_DELAY_MS,
      jitterMs: knobs.RETRY_JITTER_MAX_MS,
      backoff: knobs.RETRY_BACKOFF,
    },
    leaseMs: knobs.WORKER_LEASE_TTL_SEC * 1000,
    gateway: {
      url: knobs.GATEWAY_URL?.replace(/\/+$/, '') ?? null,
      timeoutMs: knobs.GATEWAY_TIMEOUT_MS,
      /** Timeout for a turn in the gateway: the document before this one may take its whole time. */
      waitMs: Math.max(knobs.GATEWAY_TIMEOUT_MS, WAIT_MS_MIN),
    },
    breaker: {
      mode: knobs.CIRCUIT_MODE,
      windowCalls: knobs.CIRCUIT_WINDOW,
      ratio: knobs.CIRCUIT_FAIL_THRESHOLD,
      cooldownMs: knobs.CIRCUIT_COOLDOWN_MS,
    },
    uploads: { url: storeUrl(knobs.UPLOADS_DIR ?? join(home, 'uploads')), keepDays: knobs.UPLOADS_KEEP_DAYS },
    results: { url: storeUrl(knobs.RESULTS_DIR ?? join(home, 'results')), keepDays: knobs.RESULTS_KEEP_DAYS },
    space: {
      soft: { bytesFreeMin: knobs.DISK_FREE_SOFT_MB * MEBIBYTE },
      hard: { bytesFreeMin: knobs.DISK_FREE_HARD_MB * MEBIBYTE },
    },
    /** Limits for visitors who have not signed in; 0 disables a limit. */
    visitors: {
      uploadsPerHour: knobs.VISITOR_UPLOADS_PER_HOUR,
      keptBytesMax: knobs.VISITOR_KEPT_MB * MEBIBYTE,
      concurrency: knobs.VISITOR_CONCURRENCY,
      backlogMax: knobs.VISITOR_BACKLOG,
      addressUploadsPerHour: knobs.ADDRESS_UPLOADS_PER_HOUR,
      addressBytesPerDay: knobs.ADDRESS_MB_PER_DAY * MEBIBYTE,
    },
    mappingsDir: knobs.MAPPINGS_DIR === undefined ? null : resolve(knobs.MAPPINGS_DIR),
    mappings: mappingsIn(knobs.MAPPINGS_DIR),
    sessionSecret: knobs.SESSION_SECRET ?? null,
  }
}

/** As the gateway reads them: by the names that they give themselves, and without those that are broken. */
function mappingsIn(folder: string | undefined): OfferedMapping[] {
  try {
    const byName = Map.groupBy(Mappings.load(folder).entries, ({ name }) => name)
    return [...byName].map(([name, entries]) => ({
      name,
      title: entries.at(-1)?.title ?? name,
      versions: entries.map(({ version }) => version),
    }))
  } catch (cause) {
    throw new RedressError('OPTION_INVALID', `MAPPINGS_DIR names ${folder}, which cannot be read.`, { cause })
  }
}
