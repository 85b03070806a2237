import { Refused } from '@redress/shared/routes'
import { z } from 'zod'
import { cleanText, isVisible, type Media, MediaError, plainLine } from '../media.ts'

const RECIPIENTS_MAX = 1_000
const NAME_CHARS_MAX = 200
/** As far as the engine counts. */
const EXPIRY_MS_MAX = 3_650 * 86_400_000

/** Kept whole, though a picture shows only its beginning: in that there must be something to see. */
const nameField = z
  .string()
  .max(NAME_CHARS_MAX)
  .transform(plainLine)
  .refine((name) => isVisible(cleanText(name)), 'must have a visible character')
const truth = z.union([
  z.boolean(),
  z.enum(['true', 'on', '1', 'false', '0', '']).transform((text) => /^[to1]/.test(text)),
])
const orNull = <T extends z.ZodType>(field: T) =>
  z.preprocess((value) => (value === '' ? null : value), field.nullable())

const recipientField = z.strictObject({ name: nameField, email: z.email().max(254) })

const assetField = z.string().min(1).max(100)
const expiryField = orNull(z.iso.datetime({ offset: true }))

export const draftSchema = z
  .strictObject({
    name: nameField,
    maxDownloads: orNull(z.coerce.number().int().min(1).max(1_000_000)).default(null),
    expiresAt: expiryField.default(null),
    assetId: assetField,
    visible: truth.default(true),
    invisible: truth.default(true),
    recipients: z
      .array(recipientField)
      .refine((list) => list.length > 0, 'must name at least one recipient')
      .refine((list) => list.length <= RECIPIENTS_MAX, `must name at most ${RECIPIENTS_MAX} recipients`)
      .refine((list) => isUnique(list.map(({ email }) => email.toLowerCase())), 'must name each address once'),
  })
  .refine(({ visible, invisible }) => visible || invisible, {
    path: ['invisible'],
    message: 'a campaign needs at least one kind of watermark',
  })

const isUnique = (list: readonly string[]): boolean => new Set(list).size === list.length

export const cloneSchema = z.strictObject({
  /** Another file for the same recipients: the first may have been damaged. */
  assetId: assetField.optional(),
  name: nameField.optional(),
  expiresAt: expiryField.optional(),
})

export const stopSchema = z.strictObject({
  reason: z.string().trim().min(1).max(NAME_CHARS_MAX).default('it is not wanted any more'),
})

/** A problem with one field of a draft. */
export interface DraftProblem {
  field: string
  message: string
}

export class DraftRefused extends Refused {
  readonly problems: readonly DraftProblem[]

  constructor(problems: readonly DraftProblem[], code = 'REQUEST_INVALID') {
    const said = problems.slice(0, 10).map(({ field, message }) => [field, message].filter(Boolean).join(': '))
    super({
      status: 400,
      code,
      message: `This campaign cannot be made: ${said.join('; ')}.`,
      action: 'Correct what is named and send it again.',
    })
    this.problems = problems
  }
}

/** Refuses names that the visible mark cannot show: an empty box in the picture would not identify the recipient. */
export async function checkNames(media: Pick<Media, 'checkText'>, names: readonly string[]): Promise<void> {
  const problems: DraftProblem[] = []
  for (const name of new Set(names)) {
    try {
      await media.checkText(name)
    } catch (error) {
      if (!(error instanceof MediaError) || error.code !== 'TEXT_UNDRAWABLE') throw error
      const message = `the name "${name}" cannot be drawn. ${error.message} ${error.action}`.replace(/\.$/, '')
      problems.push({ field: 'recipients', message })
    }
  }
  if (problems.length > 0) throw new DraftRefused(problems, 'TEXT_UNDRAWABLE')
}

/** Reads a draft, or reports all its problems. Recipients may also be text, one on each line. */
export function readDraft(body: unknown, nowMs: number) {
  const { recipients } = (body ?? {}) as { recipients?: unknown }
  const lines = typeof recipients === 'string' ? linesOf(recipients) : null
  const given = lines === null ? body : { ...(body as object), recipients: lines.map(({ recipient }) => recipient) }
  const { expiresAt, ...draft } = read(draftSchema, given, lines)
  return { ...draft, expiresAtMs: expiryOf(expiresAt, nowMs) }
}

/** Reads the form of a draft. Its times have no zone; the label says that they are in UTC. */
export function readDraftForm(fields: Readonly<Record<string, string>>, nowMs: number) {
  const { expiresAt = '' } = fields
  // Browsers omit the seconds if they are zero.
  const [, minutes, seconds = ':00'] = /^(\d{4}-\d\d-\d\dT\d\d:\d\d)(:\d\d(?:\.\d{1,3})?)?$/.exec(expiresAt) ?? []
  return readDraft({ ...fields, expiresAt: minutes === undefined ? expiresAt : `${minutes}${seconds}Z` }, nowMs)
}

export function readClone(body: unknown, nowMs: number) {
  const { assetId, name, expiresAt } = read(cloneSchema, body ?? {}, null)
  return { assetId, name, expiresAtMs: expiresAt === undefined ? undefined : expiryOf(expiresAt, nowMs) }
}

/** Why a campaign is stopped, for the audit trail. */
export const readStop = (body: unknown): z.output<typeof stopSchema> => read(stopSchema, body ?? {}, null)

function read<T extends z.ZodType>(schema: T, body: unknown, lines: readonly Line[] | null): z.output<T> {
  const answer = schema.safeParse(body)
  if (answer.success) return answer.data
  throw new DraftRefused(
    answer.error.issues.flatMap(({ path, message }) => {
      if (lines === null || path[0] !== 'recipients') return [{ field: path.join('.'), message }]
      return ofLines(lines, path[1], path[2], message)
    }),
  )
}

/** With line numbers, so that the author can find the problem. */
function ofLines(lines: readonly Line[], index: unknown, part: unknown, message: string): DraftProblem[] {
  const field = 'recipients'
  const at = typeof index === 'number' ? lines[index] : undefined
  if (at !== undefined) {
    const { line, recipient } = at
    if (part === 'name') return [{ field, message: `line ${line}: the name ${message.replace(/^Too big.*/, IS_LONG)}` }]
    const isThere = recipient.email !== ''
    return [{ field, message: `line ${line}: ${isThere ? `"${recipient.email}" is no email address` : NO_ADDRESS}` }]
  }
  const known = new Map<string, number>()
  const twice = lines.flatMap(({ line, recipient }) => {
    const address = recipient.email.toLowerCase()
    const first = known.get(address)
    known.set(address, first ?? line)
    return first === undefined ? [] : [{ field, message: `line ${line}: the address is that of line ${first}` }]
  })
  return message.includes('each address') && twice.length > 0 ? twice : [{ field, message }]
}

const IS_LONG = `must have at most ${NAME_CHARS_MAX} characters`
const NO_ADDRESS = 'there is no email address; write Name, email'

function expiryOf(text: string | null, nowMs: number): number | null {
  if (text === null) return null
  const atMs = Date.parse(text)
  if (atMs > nowMs && atMs <= nowMs + EXPIRY_MS_MAX) return atMs
  throw new DraftRefused([{ field: 'expiresAt', message: 'must be a time to come, within ten years' }])
}

/** A recipient, and the line of the text that names them. */
export interface Line {
  line: number
  recipient: { name: string; email: string }
}

/** 'Ann Example, ann@example.org' on each line, as people write it and as spreadsheets do. */
function linesOf(text: string): Line[] {
  return text
    .replace(/^\ufeff/, '')
    .split(/\r\n|\r|\n/)
    .map((written, i) => ({ line: i + 1, written }))
    .filter(({ written }) => written.trim() !== '')
    .map(({ line, written }) => {
      const [, name = written, email = ''] = /^(.*)[,;\t](.*)$/.exec(written) ?? []
      return { line, recipient: { name: unquoted(name), email: unquoted(email) } }
    })
    .filter(({ recipient }, i) => i > 0 || !isHeading(recipient))
}

/** The same recipients as text that reads back as them. */
export const textOf = (recipients: readonly Line['recipient'][]): string =>
  recipients.map(({ name, email }) => `${quoted(name)}, ${email}`).join('\n')

const quoted = (name: string): string => (/[",;]/.test(name) ? `"${name.replaceAll('"', '""')}"` : name)

/** Spreadsheets quote fields with a comma, and double the quotes in them. */
function unquoted(field: string): string {
  const text = field.trim()
  return /^"(.*)"$/.exec(text)?.[1]?.replaceAll('""', '"') ?? text
}

const isHeading = ({ name, email }: Line['recipient']): boolean =>
  /^(full )?name$|^recipient$/i.test(name) && /^e-?mail( address)?$/i.test(email)
