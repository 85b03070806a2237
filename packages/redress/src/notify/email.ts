import { domainToASCII } from 'node:url'
import type { Channel, Delivered, Delivery, DeliveryCode } from '../app/channels.ts'
import { RedressError } from '../core/errors.ts'
import type { Notice } from '../core/notice/notice.ts'
import { renderNotice } from '../core/notice/text.ts'
import { type Duration, durationMs } from '../core/text/duration.ts'
import { optionNames, refuseUnknownOptions } from '../core/text/options.ts'
import { oneLine } from '../core/text/printable.ts'
import { clip, read, redactAndClip } from '../core/text/redact.ts'

/** The mail server that `email()` uses. */
export interface SmtpOptions {
  host: string
  /** 465 with `secure`, else 587. */
  port?: number
  /** TLS from the first byte. Without it, STARTTLS is used where the server offers it. */
  secure?: boolean
  /** Refuse to send where the server offers no STARTTLS. */
  requireTLS?: boolean
  auth?: { user: string; pass: string }
  /** Options of Node's TLS, for instance `ca`. */
  tls?: object
  /** The name we greet with; that of the machine when left out. */
  name?: string
  /** How long the server may be silent. */
  timeout?: Duration
}

/** One mail. */
export interface Mail {
  subject: string
  text: string
  html?: string
}

type Later<T> = T | Promise<T>

/** The options of `email()`. */
export interface EmailOptions {
  smtp: SmtpOptions
  from: Address
  /** The recipients: none (null), one or several. Each gets a separate mail. */
  to: (notice: Notice) => Later<Address | readonly Address[] | null>
  /** In words of your own; plain words of ours when left out. */
  render?: (notice: Notice) => Later<Mail>
  /** Where a person can look it up, for the words of ours: 'https://ops.example.org'. */
  link?: string
}

const OPTIONS = optionNames<EmailOptions>({ smtp: true, from: true, to: true, render: true, link: true })
const SMTP_OPTIONS = optionNames<SmtpOptions>({
  host: true,
  port: true,
  secure: true,
  requireTLS: true,
  auth: true,
  tls: true,
  name: true,
  timeout: true,
})
const RECIPIENTS_MAX = 50
/** Half of what an attempt has. */
const SENDING_MS_MAX = 60_000
const SUBJECT_CHARS_MAX = 250
const TEXT_CHARS_MAX = 200_000
const HTML_CHARS_MAX = 500_000
const ANSWER_CHARS_MAX = 300

/** Mails by SMTP. */
export function email(options: EmailOptions): Channel {
  refuseUnknownOptions('email()', options, OPTIONS)
  const { smtp, to, render, link } = options
  refuseUnknownOptions('email(): smtp', smtp, SMTP_OPTIONS)
  const from = readAddress(options.from)
  if (from === null) throw invalid('from must be an address, such as redress@example.org')
  if (typeof smtp?.host !== 'string' || smtp.host === '') throw invalid('smtp.host must name a mail server')
  if (typeof to !== 'function') throw invalid('to must be a function: (notice) => address')
  const timeoutMs = durationMs(smtp.timeout ?? '30s', 'smtp.timeout')
  const inWords = render ?? ((notice: Notice) => renderNotice(notice, link === undefined ? {} : { link }))
  let transport: Promise<Transport> | null = null
  const domain = domainOf(from.address)

  return {
    kind: 'email',
    async deliver(notice, delivery) {
      const { recipients, refused } = await recipientsOf(notice, to, delivery)
      if (recipients.length === 0) return { to: [], answer: 'there was no recipient' }
      const mail = checkedMail(await asked(delivery, () => inWords(notice)), delivery)
      transport ??= openTransport(smtp, timeoutMs)
      // The same for each recipient and attempt, so that a mailbox recognizes a duplicate.
      const same = { ...mail, from, messageId: `<${delivery.id}@${domain}>`, headers: AUTOMATIC }
      const { sendMail } = await transport
      const sent = await sendToEach(recipients, (recipient) => sendMail({ ...same, to: [recipient] }), delivery)
      return { ...sent, refused: [...refused, ...(sent.refused ?? [])] }
    },
  }
}

/** So that no machine answers a machine (RFC 3834). */
const AUTOMATIC = { 'Auto-Submitted': 'auto-generated', 'X-Auto-Response-Suppress': 'All' }

interface Transport {
  sendMail(mail: object): Promise<{ response: string }>
}

/** Loaded when the first mail is sent: most programs never send one. */
async function openTransport(smtp: SmtpOptions, timeoutMs: number): Promise<Transport> {
  const { createTransport } = await import('nodemailer')
  const { timeout: _, ...connection } = smtp
  const limits = { connectionTimeout: timeoutMs, greetingTimeout: timeoutMs, socketTimeout: timeoutMs }
  // What a notice says must not make the mailer read files or fetch pages.
  const mailer = createTransport({ ...connection, ...limits, disableFileAccess: true, disableUrlAccess: true })
  return { sendMail: (mail) => mailer.sendMail(mail) }
}

type Sent = { how: 'sent' | 'refused' | 'later'; answer: string; code: DeliveryCode; isForAll: boolean }

/** One mail per recipient: no recipient sees the others, and one bad address does not stop the rest. */
async function sendToEach(
  recipients: readonly CheckedAddress[],
  send: (recipient: CheckedAddress) => Promise<{ response: string }>,
  delivery: Delivery,
): Promise<Delivered> {
  const outcomes: (Sent & { to: string })[] = []
  let last: Sent | null = null
  const startMs = performance.now()
  for (const recipient of recipients) {
    // An attempt that ran out of time would tell those again who were reached: the rest goes on in one of its own.
    if (outcomes.some(({ how }) => how === 'sent') && performance.now() - startMs > SENDING_MS_MAX) last = NO_TIME_LEFT
    // Where the server itself is the trouble, it need not be asked again for each.
    if (last?.isForAll !== true) {
      delivery.signal.throwIfAborted()
      last = await send(recipient).then(({ response }) => sent(response), outcomeOf)
    }
    outcomes.push({ ...last, to: recipient.address })
  }
  const only = (how: Sent['how']) => outcomes.filter((outcome) => outcome.how === how)
  const [accepted, refused, later] = [only('sent'), only('refused'), only('later')]
  const [first] = accepted
  if (first === undefined) {
    const { code, answer } = (later[0] ?? refused[0]) as Sent
    const to = outcomes.map((outcome) => outcome.to)
    return delivery.fail(code, { detail: `${to.join(', ')}: ${answer}`, context: { to, answer } })
  }
  return {
    to: accepted.map(({ to }) => to),
    answer: first.answer,
    refused: refused.map(({ to, answer }) => ({ to, answer })),
    later: later.map(({ to }) => to),
  }
}

const NO_TIME_LEFT: Sent = {
  how: 'later',
  answer: 'there was no time left in this attempt',
  code: 'RECIPIENT_DEFERRED',
  isForAll: true,
}

const sent = (response: string): Sent => ({
  how: 'sent',
  answer: said(response),
  code: 'CHANNEL_REFUSED',
  isForAll: false,
})

const said = (text: unknown): string => redactAndClip(oneLine(typeof text === 'string' ? text : ''), ANSWER_CHARS_MAX)

/** 4xx is "not now", 5xx is "never"; without an answer the server was not reached. */
function outcomeOf(error: unknown): Sent {
  const status = Number(read(error, 'responseCode') ?? 0)
  const answer = said(read(error, 'response')) || said(read(error, 'message')) || 'the mail could not be sent'
  const isLogin = read(error, 'code') === 'EAUTH'
  const isSender = isLogin || read(error, 'command') === 'MAIL FROM'
  if (status >= 400 && status < 500) return { how: 'later', answer, code: 'RECIPIENT_DEFERRED', isForAll: isLogin }
  if (isLogin || (status >= 500 && isSender)) return { how: 'refused', answer, code: 'SENDER_REFUSED', isForAll: true }
  if (status >= 500) return { how: 'refused', answer, code: 'RECIPIENT_REFUSED', isForAll: false }
  if (read(error, 'code') === 'EENVELOPE') return { how: 'refused', answer, code: 'RECIPIENT_INVALID', isForAll: false }
  return { how: 'later', answer, code: 'CHANNEL_DOWN', isForAll: true }
}

/** An invalid address is refused alone; the other recipients still get their mail. */
async function recipientsOf(notice: Notice, to: EmailOptions['to'], delivery: Delivery) {
  const named = await asked(delivery, () => to(notice))
  const list = named === null || named === undefined ? [] : Array.isArray(named) ? named : [named]
  if (list.length > RECIPIENTS_MAX) {
    delivery.fail('RECIPIENT_INVALID', { detail: `${list.length} recipients; at most ${RECIPIENTS_MAX} get a mail` })
  }
  const wrong = list.filter((one) => readAddress(one) === null)
  if (wrong.length > 0 && wrong.length === list.length) {
    delivery.fail('RECIPIENT_INVALID', { detail: wrong.map(describe).join('; ') })
  }
  const checked = list.flatMap((one) => readAddress(one) ?? [])
  const unique = [...new Map(checked.map((one) => [one.address, one])).values()]
  if (delivery.only === null) return { recipients: unique, refused: wrong.map(asRefused) }
  return { recipients: unique.filter(({ address }) => delivery.only?.includes(address)), refused: [] }
}

const shown = (value: unknown): string => redactAndClip(JSON.stringify(value) ?? String(value), 200)
const describe = (value: unknown): string => `no address: ${shown(value)}; use 'a@example.org' or { name, address }`
const asRefused = (value: unknown) => ({ to: shown(value), answer: 'no address' })

/** The author's functions may look things up, and fail at it: that is worth another attempt. */
async function asked<T>(delivery: Delivery, ask: () => T): Promise<Awaited<T>> {
  try {
    return await ask()
  } catch (error) {
    return delivery.fail('NOTICE_UNRENDERABLE', { cause: error })
  }
}

function checkedMail(mail: Mail, delivery: Delivery): Mail {
  const { subject, text, html } = (mail ?? {}) as Mail
  if (typeof subject !== 'string' || typeof text !== 'string' || (html !== undefined && typeof html !== 'string')) {
    delivery.fail('NOTICE_UNRENDERABLE', { detail: 'render must answer with { subject, text, html? }, all texts' })
  }
  // Half a page of HTML is worse than the text alone.
  const page = html === undefined || html.length > HTML_CHARS_MAX ? {} : { html }
  return { subject: clip(oneLine(subject), SUBJECT_CHARS_MAX), text: clip(text, TEXT_CHARS_MAX), ...page }
}

const invalid = (message: string) => new RedressError('OPTION_INVALID', `email: ${message}.`)

/** A bare address, or one with a name beside it. Never 'Name <address>': a name could then bring addresses of its own. */
export type Address = string | { name: string; address: string }

interface CheckedAddress {
  name: string
  address: string
}

const ADDRESS_CHARS_MAX = 320
const NAME_CHARS_MAX = 200
/** One address and nothing else: what could end a header or a command, or begin another address, is not in it. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
const BARE = /^[^\s@<>()[\]\\,;:"\u0000-\u001f\u007f]+@[^\s@<>()[\]\\,;:"\u0000-\u001f\u007f]+$/u

/** null when it is no address. */
function readAddress(value: unknown): CheckedAddress | null {
  const { name, address } =
    typeof value === 'object' && value !== null ? (value as CheckedAddress) : { name: '', address: value }
  if (typeof address !== 'string' || typeof name !== 'string') return null
  const bare = address.trim()
  if (bare.length > ADDRESS_CHARS_MAX || !BARE.test(bare) || domainOf(bare) === '') return null
  return { name: clip(oneLine(name), NAME_CHARS_MAX), address: bare }
}

/** As it is written in headers; '' when it is no domain. */
const domainOf = (address: string): string => domainToASCII(address.slice(address.lastIndexOf('@') + 1))
