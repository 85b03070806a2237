import { join, resolve } from 'node:path'
import { storeUrl } from '@redress/shared/artifact-stores'
import { type Environment, place, readKnobs, smtpOf, storePlace, whole } from '@redress/shared/settings'
import { z } from 'zod'

const MEBIBYTE = 2 ** 20
const MINUTE_MS = 60_000

const DELAYS_DEFAULT = '1m,5m,15m'
/** Times with commas between them. */
const delays = z
  .string()
  .default(DELAYS_DEFAULT)
  .transform((text) => text.split(',').map((part) => part.trim()))
  .refine((list) => list.every((part) => /^\d+(ms|s|m|h|d)$/.test(part)), `must be times such as ${DELAYS_DEFAULT}`)

const KNOBS = z
  .object({
    WATERMARK_MAX_RETRIES: whole(0, 99, 3),
    WATERMARK_RETRY_DELAYS: delays,
    WATERMARK_LEASE_SEC: whole(1, 86_400, 30),
    WATERMARK_STUCK_MINUTES: whole(1, 1_440, 30),
    WATERMARK_TIMEOUT_MINUTES: whole(1, 1_440, 60),
    WATERMARK_UPLOAD_MB: whole(1, 1_000_000, 2_048),
    WATERMARK_ASSETS_DIR: storePlace,
    WATERMARK_COPIES_DIR: storePlace,
    WATERMARK_WORK_DIR: place,
    WATERMARK_SECRET: z.string().min(32, 'must have at least 32 characters').optional(),
    WATERMARK_FONT: place,
    WATERMARK_PUBLIC_URL: z.url({ protocol: /^https?$/ }).optional(),
    DISK_FREE_SOFT_MB: whole(0, 100_000_000, 512),
    DISK_FREE_HARD_MB: whole(0, 100_000_000, 64),
    SMTP_URL: z.url({ protocol: /^smtps?$/ }).optional(),
    MAIL_FROM: z.email().optional(),
    WEBHOOK_URL: z.url({ protocol: /^https?$/ }).optional(),
    WEBHOOK_SECRET: z.string().min(1).optional(),
  })
  .refine(({ SMTP_URL, MAIL_FROM }) => SMTP_URL === undefined || MAIL_FROM !== undefined, {
    path: ['MAIL_FROM'],
    message: 'must be given with SMTP_URL',
  })
  .refine(({ WEBHOOK_URL, WEBHOOK_SECRET }) => WEBHOOK_URL === undefined || WEBHOOK_SECRET !== undefined, {
    path: ['WEBHOOK_SECRET'],
    message: 'must be given with WEBHOOK_URL',
  })

export const KNOB_NAMES: readonly string[] = Object.keys(KNOBS.shape)

export type Settings = ReturnType<typeof readSettings>

/** Reads the settings. Reports all invalid values at once, by name. */
export function readSettings(env: Environment, home: string) {
  const knobs = readKnobs(KNOBS, env, 'watermark')
  return {
    home,
    retriesMax: knobs.WATERMARK_MAX_RETRIES,
    /** Before the first retry, the second, and so on; the last holds for all that follow. */
    retryDelays: knobs.WATERMARK_RETRY_DELAYS,
    leaseMs: knobs.WATERMARK_LEASE_SEC * 1000,
    stuckAfterMs: knobs.WATERMARK_STUCK_MINUTES * MINUTE_MS,
    attemptMs: knobs.WATERMARK_TIMEOUT_MINUTES * MINUTE_MS,
    uploadBytesMax: knobs.WATERMARK_UPLOAD_MB * MEBIBYTE,
    assetsUrl: storeUrl(knobs.WATERMARK_ASSETS_DIR ?? join(home, 'assets')),
    copiesUrl: storeUrl(knobs.WATERMARK_COPIES_DIR ?? join(home, 'copies')),
    /** The folder for files in work: ffmpeg needs file names, not streams. */
    work: resolve(knobs.WATERMARK_WORK_DIR ?? join(home, 'work')),
    secret: knobs.WATERMARK_SECRET ?? null,
    fontFile: knobs.WATERMARK_FONT ?? null,
    publicUrl: knobs.WATERMARK_PUBLIC_URL?.replace(/\/+$/, '') ?? null,
    space: {
      soft: { bytesFreeMin: knobs.DISK_FREE_SOFT_MB * MEBIBYTE },
      hard: { bytesFreeMin: knobs.DISK_FREE_HARD_MB * MEBIBYTE },
    },
    mail: knobs.SMTP_URL === undefined ? null : { smtp: smtpOf(knobs.SMTP_URL), from: knobs.MAIL_FROM ?? '' },
    webhook: knobs.WEBHOOK_URL === undefined ? null : { url: knobs.WEBHOOK_URL, secret: knobs.WEBHOOK_SECRET ?? '' },
  }
}
