import { z } from 'zod'
import { Refused } from '../shared/refused.ts'
import { cleanText } from './media.ts'

const RECIPIENTS_MAX = 1_000
const NAME_CHARS_MAX = 200
/** As far as the engine counts. */
const EXPIRY_MS_MAX = 3_650 * 86_400_000

const nameField = z
  .string()
  .max(NAME_CHARS_MAX)
  .transform(cleanText)
  .refine((text) => text !== '', 'must have a visible character')
const truth = z.union([
  z.boolean(),
  z.enum(['true', 'on', '1', 'false', '0', '']).transform((text) => /^[to1]/.test(text)),
])
const orNull = <T extends z.ZodType>(field: T) =>
  z.preprocess((value) => (value === '' ? null : value), field.nullable())

const recipientField = z.strictObject({ name: nameField, email: z.email().max(254) })

/** 'Ann Example, ann@example.org' on each line, as a form without script has it. */
function fromLines(given: unknown): unknown {
  if (typeof given !== 'string') return given
  const lines = given.split(/\r?\n/).filter((line) => line.trim() !== '')
  return lines.map((line) => {
    const [, name = line, email = ''] = /^(.*)[,;\t](.*)$/.exec(line) ?? []
    return { name: name.trim(), email: email.trim() }
  })
}

const expiryField = orNull(z.iso.datetime({ offset: true }))

const draftSchema = z
  .strictObject({
    name: nameField,
    maxDownloads: orNull(z.coerce.number().int().min(1).max(1_000_000)).default(null),
    expiresAt: expiryField.default(null),
    assetId: z.string().min(1).max(100),
    visible: truth.default(true),
    invisible: truth.default(true),
    recipients: z
      .preprocess(fromLines, z.array(recipientField))
      .refine((list) => list.length > 0, 'must name at least one recipient')
      .refine((list) => list.length <= RECIPIENTS_MAX, `must name at most ${RECIPIENTS_MAX} recipients`)
      .refine((list) => isUnique(list.map(({ email }) => email.toLowerCase())), 'must name each address once'),
  })
  .refine(({ visible, invisible }) => visible || invisible, {
    path: ['invisible'],
    message: 'a campaign needs at least one kind of watermark',
  })

const isUnique = (list: readonly string[]): boolean => new Set(list).size === list.length

const cloneSchema = z.strictObject({
  name: nameField.optional(),
  expiresAt: expiryField.optional(),
})

/** A draft as somebody sent it, or what is wrong with it. */
export function readDraft(body: unknown, nowMs: number) {
  const { expiresAt, ...draft } = read(draftSchema, body)
  return { ...draft, expiresAtMs: expiryOf(expiresAt, nowMs) }
}

export function readClone(body: unknown, nowMs: number) {
  const { name, expiresAt } = read(cloneSchema, body ?? {})
  return { name, expiresAtMs: expiresAt === undefined ? undefined : expiryOf(expiresAt, nowMs) }
}

function read<T extends z.ZodType>(schema: T, body: unknown): z.output<T> {
  const answer = schema.safeParse(body)
  if (answer.success) return answer.data
  const problems = answer.error.issues.map(({ path, message }) => [path.join('.'), message].filter(Boolean).join(': '))
  throw invalid(`This campaign cannot be made: ${problems.slice(0, 10).join('; ')}.`)
}

function expiryOf(text: string | null, nowMs: number): number | null {
  if (text === null) return null
  const atMs = Date.parse(text)
  if (atMs > nowMs && atMs <= nowMs + EXPIRY_MS_MAX) return atMs
  throw invalid('This campaign cannot be made: expiresAt: must be a time to come, within ten years.')
}

const invalid = (message: string): Refused =>
  new Refused({ status: 400, code: 'REQUEST_INVALID', message, action: 'Correct what is named and send it again.' })
