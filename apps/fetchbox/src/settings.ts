import { join, resolve } from 'node:path'
import { storeUrl } from '@redress/shared/artifact-stores'
import { type Environment, place, readKnobs, storePlace, whole } from '@redress/shared/settings'
import { z } from 'zod'

const MEBIBYTE = 2 ** 20
const DAY_MS = 86_400_000
const PORT_MAX = 65_535

const list = z.string().transform((text) => text.split(',').flatMap((part) => part.trim() || []))
const port = z.coerce.number<string>().int().min(1).max(PORT_MAX)
const ports = list.pipe(z.array(port).min(1))

const KNOBS = z.object({
  DOWNLOAD_RETRY_LIMIT: whole(1, 100, 3),
  STORAGE_RETRY_LIMIT: whole(1, 100, 3),
  FETCHBOX_RETRY_BASE_MS: whole(1, 60_000, 500),
  FETCHBOX_STORAGE: storePlace,
  FETCHBOX_SECRET: z.string().min(32).optional(),
  FETCHBOX_WORK_DIR: place,
  FETCHBOX_HANDLERS: place,
  FETCHBOX_PROXIES: place,
  FETCHBOX_ALLOW: list.default([]),
  FETCHBOX_PORTS: ports.default([80, 443]),
  FETCHBOX_MAX_MB: whole(1, 1_000_000, 1_024),
  FETCHBOX_CONCURRENCY: whole(1, 100_000, 64),
  FETCHBOX_PER_HOST: whole(1, 10_000, 4),
  FETCHBOX_CONNECT_TIMEOUT_MS: whole(1, DAY_MS, 10_000),
  FETCHBOX_HEADERS_TIMEOUT_MS: whole(1, DAY_MS, 30_000),
  FETCHBOX_BODY_TIMEOUT_MS: whole(1, DAY_MS, 30_000),
  FETCHBOX_DOWNLOAD_TIMEOUT_MS: whole(1, DAY_MS, 600_000),
  FETCHBOX_HANDLER_TIMEOUT_MS: whole(1, DAY_MS, 30_000),
  FETCHBOX_LEASE_SEC: whole(1, 86_400, 30),
  FETCHBOX_KEEP_DAYS: whole(1, 3_000, 30),
  DISK_FREE_SOFT_MB: whole(0, 100_000_000, 512),
  DISK_FREE_HARD_MB: whole(0, 100_000_000, 64),
})

export const KNOB_NAMES: readonly string[] = Object.keys(KNOBS.shape)

export type Settings = ReturnType<typeof readSettings>

/** Reads the settings. Reports all invalid values at once, by name. */
export function readSettings(env: Environment, home: string) {
  const knobs = readKnobs(KNOBS, env, 'fetchbox')
  return {
    downloadTriesMax: knobs.DOWNLOAD_RETRY_LIMIT,
    storageTriesMax: knobs.STORAGE_RETRY_LIMIT,
    retryBaseMs: knobs.FETCHBOX_RETRY_BASE_MS,
    storageUrl: storeUrl(knobs.FETCHBOX_STORAGE ?? join(home, 'storage')),
    /** Null: a secret is generated and kept in `home`. */
    secret: knobs.FETCHBOX_SECRET ?? null,
    /** Downloads that are too large for memory are kept here until they are uploaded. */
    work: resolve(knobs.FETCHBOX_WORK_DIR ?? join(home, 'work')),
    handlersDir: knobs.FETCHBOX_HANDLERS === undefined ? null : resolve(knobs.FETCHBOX_HANDLERS),
    proxiesFile: knobs.FETCHBOX_PROXIES === undefined ? null : resolve(knobs.FETCHBOX_PROXIES),
    outbound: { allow: knobs.FETCHBOX_ALLOW, ports: knobs.FETCHBOX_PORTS },
    resourceBytesMax: knobs.FETCHBOX_MAX_MB * MEBIBYTE,
    concurrency: { max: knobs.FETCHBOX_CONCURRENCY, perKey: knobs.FETCHBOX_PER_HOST },
    timeouts: {
      connectMs: knobs.FETCHBOX_CONNECT_TIMEOUT_MS,
      headersMs: knobs.FETCHBOX_HEADERS_TIMEOUT_MS,
      bodyMs: knobs.FETCHBOX_BODY_TIMEOUT_MS,
      wholeMs: knobs.FETCHBOX_DOWNLOAD_TIMEOUT_MS,
    },
    handlerMs: knobs.FETCHBOX_HANDLER_TIMEOUT_MS,
    leaseMs: knobs.FETCHBOX_LEASE_SEC * 1_000,
    keepMs: knobs.FETCHBOX_KEEP_DAYS * DAY_MS,
    keepDays: knobs.FETCHBOX_KEEP_DAYS,
    space: {
      soft: { bytesFreeMin: knobs.DISK_FREE_SOFT_MB * MEBIBYTE },
      hard: { bytesFreeMin: knobs.DISK_FREE_HARD_MB * MEBIBYTE },
    },
  }
}
