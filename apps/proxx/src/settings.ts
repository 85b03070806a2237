import { isAbsolute, join, resolve } from 'node:path'
import { type Environment, readKnobs, whole } from '@redress/shared/settings'
import { z } from 'zod'

const MEBIBYTE = 2 ** 20
const MINUTE_MS = 60_000

const folder = z.string().refine((path) => isAbsolute(path), 'must be an absolute path')

/** Folders with colons between them. */
const folders = z
  .string()
  .transform((text) => text.split(':').filter((part) => part !== ''))
  .refine((list) => list.length > 0 && list.every((path) => isAbsolute(path)), 'must be absolute paths, with : between')

/** No setting changes what happens after a failure (P68). The lease only sets how soon a silent worker is noticed. */
const KNOBS = z
  .object({
    PROXX_ROOTS: folders.optional(),
    PROXX_SCRIPTS: folder.optional(),
    PROXX_FREE_MB: whole(0, 100_000_000, 512),
    PROXX_CLIP_MINUTES: whole(1, 1_440, 360),
    PROXX_MEMORY_MB: whole(256, 1_000_000, 4_096),
    PROXX_LEASE_SEC: whole(1, 3_600, 30),
    PROXX_MAIL_TO: z.email().optional(),
    SMTP_URL: z.url({ protocol: /^smtps?$/ }).optional(),
    MAIL_FROM: z.email().optional(),
    PROXX_WEBHOOK_URL: z.url({ protocol: /^https?$/ }).optional(),
    PROXX_WEBHOOK_SECRET: z.string().min(1).optional(),
  })
  .refine(({ PROXX_MAIL_TO, SMTP_URL, MAIL_FROM }) => !PROXX_MAIL_TO || (SMTP_URL && MAIL_FROM), {
    path: ['PROXX_MAIL_TO'],
    message: 'needs SMTP_URL and MAIL_FROM',
  })
  .refine(({ PROXX_WEBHOOK_URL, PROXX_WEBHOOK_SECRET }) => !PROXX_WEBHOOK_URL || PROXX_WEBHOOK_SECRET, {
    path: ['PROXX_WEBHOOK_SECRET'],
    message: 'must be given with PROXX_WEBHOOK_URL',
  })

export const KNOB_NAMES: readonly string[] = Object.keys(KNOBS.shape)

export type Settings = ReturnType<typeof readSettings>

/** Reads the settings. Reports all invalid values at once, by name. */
export function readSettings(env: Environment, home: string) {
  const knobs = readKnobs(KNOBS, env, 'proxx')
  const { PROXX_MAIL_TO: to, SMTP_URL: smtpUrl, MAIL_FROM: from } = knobs
  const { PROXX_WEBHOOK_URL: url, PROXX_WEBHOOK_SECRET: secret } = knobs
  return {
    /** A folder per job: its file, and what ffmpeg said. */
    jobs: join(resolve(home), 'jobs'),
    /** Where sources and outputs may be; null for everywhere, and then owners submit nothing. */
    roots: knobs.PROXX_ROOTS ?? null,
    scripts: knobs.PROXX_SCRIPTS ?? null,
    freeBytesMin: knobs.PROXX_FREE_MB * MEBIBYTE,
    clipMs: knobs.PROXX_CLIP_MINUTES * MINUTE_MS,
    memoryBytes: knobs.PROXX_MEMORY_MB * MEBIBYTE,
    leaseMs: knobs.PROXX_LEASE_SEC * 1000,
    mail: to && smtpUrl && from ? { to, smtp: smtpUrl, from } : null,
    webhook: url && secret ? { url, secret } : null,
  }
}
