import { join } from 'node:path'
import { RedressError } from 'redress'
import { z } from 'zod'
import { storeUrl } from '../shared/stores.ts'

export type Environment = Readonly<Record<string, string | undefined>>

const MEBIBYTE = 2 ** 20
const MINUTE_MS = 60_000

const whole = (min: number, max: number, fallback: number) =>
  z.coerce.number().int().min(min).max(max).default(fallback)
const place = z.string().min(1).optional()

const KNOBS = z
  .object({
    WATERMARK_MAX_RETRIES: whole(0, 99, 3),
    WATERMARK_TIMEOUT_MINUTES: whole(1, 1_440, 60),
    WATERMARK_UPLOAD_MB: whole(1, 1_000_000, 2_048),
    WATERMARK_ASSETS_DIR: place,
    WATERMARK_COPIES_DIR: place,
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

const KNOB_NAMES: readonly string[] = Object.keys(KNOBS.shape)

export type Settings = ReturnType<typeof readSettings>

/** Reads the knobs. Everything that is wrong is said at once, by its name. */
export function readSettings(env: Environment, home: string) {
  const given = Object.fromEntries(
    KNOB_NAMES.flatMap((name) => {
      const value = env[name]?.trim()
      return value === undefined || value === '' ? [] : [[name, value]]
    }),
  )
  const read = KNOBS.safeParse(given)
  if (!read.success) {
    const problems = read.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`)
    const message = `The environment has values that watermark cannot use: ${problems.join('; ')}`
    throw new RedressError('OPTION_INVALID', message, { problems, action: 'Correct them, or unset them.' })
  }
  const knobs = read.data
  return {
    home,
    retriesMax: knobs.WATERMARK_MAX_RETRIES,
    attemptMs: knobs.WATERMARK_TIMEOUT_MINUTES * MINUTE_MS,
    uploadBytesMax: knobs.WATERMARK_UPLOAD_MB * MEBIBYTE,
    assetsUrl: storeUrl(knobs.WATERMARK_ASSETS_DIR ?? join(home, 'assets')),
    copiesUrl: storeUrl(knobs.WATERMARK_COPIES_DIR ?? join(home, 'copies')),
    /** Where files lie while programs work on them: those take names, not streams. */
    work: join(home, 'work'),
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

/** smtp://user:password@mail.example.org:587 */
function smtpOf(address: string) {
  const { protocol, hostname, port, username, password } = new URL(address)
  const auth = { user: decodeURIComponent(username), pass: decodeURIComponent(password) }
  return {
    host: hostname,
    secure: protocol === 'smtps:',
    ...(port !== '' && { port: Number(port) }),
    ...(username !== '' && { auth }),
  }
}
