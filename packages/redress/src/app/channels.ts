import { RedressError } from '../core/errors.ts'
import { failureCodes } from '../core/failure/taxonomy.ts'
import { type NewNotice, NOTIFY_PREFIX, type Notice, typeOfChannel } from '../core/notice/notice.ts'
import { exponential } from '../core/policy/backoff.ts'
import { type Policy, policy } from '../core/policy/policy.ts'
import { DAY_MS, type Duration, durationMs, HOUR_MS } from '../core/text/duration.ts'
import { packInput } from '../core/text/json-value.ts'
import { isName } from '../core/text/names.ts'
import { optionNames, refuseUnknownOptions } from '../core/text/options.ts'
import { clip } from '../core/text/redact.ts'
import type { AddedNotice } from '../store/contract/notices.ts'
import { derivedId } from '../store/scripts/derived-id.ts'
import type { Attempt, AttemptFailOptions } from '../worker/attempt/attempt.ts'
import type { Duty } from '../worker/duty.ts'
import type { AppHost } from './host.ts'
import type { JobDefinition } from './jobs/contract.ts'
import { newJob } from './jobs/submission.ts'

/** Slots per process that declares the channel. Other job types and other channels cannot use them. */
const SLOTS_PER_CHANNEL = 4
const RELAY_EVERY_MS = 1_000
const RELAY_PER_STEP = 200
const FORGET_EVERY_MS = 10 * 60_000
const FORGET_PER_STEP = 1_000
const KEPT_MS = 30 * DAY_MS
const LATER_MS = 60_000
const WAIT_MS_MAX = 6 * HOUR_MS
const CHANNELS_MAX = 20
const SUBJECT_CHARS_MAX = 1_000
const DATA_BYTES_MAX = 256 * 1024
/** The notices of the engine itself; see NoticeContent. */
const ENGINE_KINDS = new Set(['failed', 'orphaned', 'settled', 'app', 'test'])

/** Six attempts in three hours; a failed one is kept where an operator sees it and can send it again. */
const DELIVERY_POLICY: Policy = policy({
  retry: {
    max: 6,
    unknown: 'transient',
    backoff: exponential('15s', { factor: 5, cap: '6h', jitter: '20%' }),
    retryAfterMax: WAIT_MS_MAX,
  },
  manualRetry: 'in-place',
  orphan: 'requeue',
  timeout: { attempt: '2m' },
  errors: 'latest',
  deadLetter: 'flag',
  retention: { complete: '30d', failed: '90d', cancelled: '30d' },
})

/** The stored input of a delivery. */
export interface DeliveryInput {
  /** Of the notice in the outbox. */
  seq: number
  notice: Notice
  /** The delivery that reached all but these. */
  rest?: { of: string; only: string[] }
}

/** The stored result of a delivery: what is known of it afterwards. */
interface DeliveryResult extends Delivered {
  /** The job that goes on with those who were put off. */
  laterJob?: string
}

/** The options of `app.notify()`. */
export interface NotifyOptions {
  channels: readonly string[]
  /** One line: what it is about. */
  subject: string
  /** Two notices of one kind and cause are the same: one of them is sent per window. When left out, each is sent. */
  cause?: string
  /** One hour when a cause is given. */
  window?: Duration
  /** Whatever `render` or `body` of the channel needs; kept as JSON. */
  data?: unknown
}

const NOTIFY_OPTIONS = optionNames<NotifyOptions>({
  channels: true,
  subject: true,
  cause: true,
  window: true,
  data: true,
})

type Declare = (
  type: string,
  definition: JobDefinition<DeliveryInput, DeliveryInput, DeliveryCode, unknown>,
  ownSlots: number,
) => void

/** The channels of one program, and the way from the outbox to them. */
export class Channels {
  readonly #host: AppHost
  readonly #declare: Declare
  readonly #names: string[] = []

  constructor(host: AppHost, declare: Declare) {
    this.#host = host
    this.#declare = declare
  }

  get names(): readonly string[] {
    return this.#names
  }

  add(name: string, channel: Channel): void {
    checkChannelName(name)
    if (typeof channel?.deliver !== 'function') {
      throw new RedressError('OPTION_INVALID', `The channel ${name} has no \`deliver\`: use email() or webhook().`)
    }
    if (this.#names.includes(name)) {
      throw new RedressError('OPTION_INVALID', `The channel ${name} was declared already.`)
    }
    const definition: JobDefinition<DeliveryInput, DeliveryInput, DeliveryCode, unknown> = {
      queue: 'redress.notify',
      codes: DELIVERY_CODES,
      policy: DELIVERY_POLICY,
      run: (input, attempt) => this.#deliver(name, channel, input, attempt as Attempt<DeliveryCode>),
    }
    this.#declare(typeOfChannel(name), definition, SLOTS_PER_CHANNEL)
    this.#names.push(name)
  }

  async notify(kind: string, options: NotifyOptions): Promise<AddedNotice> {
    const store = await this.#host.store()
    const [added] = await store.addNotices({ notices: [appNotice(kind, options)] })
    return added as AddedNotice
  }

  /** Every process relays what waits for its own channels; each notice becomes one job per channel all the same. */
  duties(): Duty[] {
    return [
      { name: 'relaying notices', everyMs: RELAY_EVERY_MS, run: () => this.#relay() },
      { name: 'forgetting old notices', everyMs: FORGET_EVERY_MS, run: () => this.#forget() },
    ]
  }

  async #relay(): Promise<void> {
    if (this.#names.length === 0) return
    const store = await this.#host.store()
    while ((await store.relayNotices({ channels: this.#names, limit: RELAY_PER_STEP })) === RELAY_PER_STEP);
  }

  async #forget(): Promise<void> {
    if (this.#names.length === 0) return
    const store = await this.#host.store()
    while ((await store.forgetNotices({ keptMs: KEPT_MS, limit: FORGET_PER_STEP })) === FORGET_PER_STEP);
  }

  async #deliver(name: string, channel: Channel, input: DeliveryInput, attempt: Attempt<DeliveryCode>) {
    const { notice, rest } = input
    const nowMs = this.#host.clock.nowMs()
    const delivered = await channel.deliver(notice, {
      id: rest?.of ?? attempt.jobId,
      attempt: attempt.number,
      signal: attempt.signal,
      nowMs,
      only: rest?.only ?? null,
      fail: (code, options) => attempt.fail(code, options),
    })
    const { to, answer, refused = [], later = [] } = delivered
    const result: DeliveryResult = { to: [...to], answer: clip(answer, 500), refused: [...refused], later: [...later] }
    if (later.length === 0) return result
    return { ...result, laterJob: await this.#deliverLater(name, input, [...later], attempt.jobId) }
  }

  /**
   * Some were reached and some put off. The rest becomes a job of its own, so that trying again does not tell the
   * others twice. Its id is derived: when we die before this attempt is recorded, the next one makes no second rest.
   */
  async #deliverLater(name: string, { seq, notice, rest }: DeliveryInput, only: string[], jobId: string) {
    const store = await this.#host.store()
    const input: DeliveryInput = { seq, notice, rest: { of: rest?.of ?? jobId, only } }
    const id = derivedId('later', jobId)
    const job = newJob(typeOfChannel(name), JSON.stringify(input), { id, delay: LATER_MS }, this.#host.makeId)
    await store.submit({ jobs: [job] })
    return id
  }
}

function appNotice(kind: string, options: NotifyOptions): NewNotice {
  refuseUnknownOptions('notify()', options, NOTIFY_OPTIONS)
  const { channels, subject, cause, window, data = null } = options ?? {}
  if (!isName(kind) || ENGINE_KINDS.has(kind)) {
    throw invalid(
      `${JSON.stringify(kind)} is not a kind of notice of your own: begin with a letter, then letters, digits and . _ : -`,
    )
  }
  if (!Array.isArray(channels) || channels.length === 0 || channels.length > CHANNELS_MAX) {
    throw invalid(`channels must be a list of 1 to ${CHANNELS_MAX} names`)
  }
  for (const channel of channels) checkChannelName(channel)
  if (typeof subject !== 'string' || subject.trim() === '') throw invalid('subject must be a text that says something')
  if (cause !== undefined && (typeof cause !== 'string' || cause === '' || cause.length > SUBJECT_CHARS_MAX)) {
    throw invalid(`cause must be a text of 1 to ${SUBJECT_CHARS_MAX} characters`)
  }
  if (window !== undefined && cause === undefined)
    throw invalid('window needs a cause: one notice per cause is sent in each window')
  const windowMs = window === undefined ? HOUR_MS : durationMs(window, 'window')
  return {
    channels,
    subject: `app:${kind}`,
    cause: cause ?? '',
    windowMs: cause === undefined ? 0 : windowMs,
    content: {
      kind: 'app',
      name: kind,
      subject: clip(subject, SUBJECT_CHARS_MAX),
      data: JSON.parse(packInput('The data of a notice', data, DATA_BYTES_MAX)),
    },
  }
}

/** A channel gives its name to a job type, which may have so many characters. */
function checkChannelName(name: unknown): void {
  if (isName(name) && isName(`${NOTIFY_PREFIX}${name}`)) return
  throw invalid(
    `${JSON.stringify(name)} is not a name for a channel: begin with a letter, then letters, digits and . _ : -`,
  )
}

const invalid = (message: string) => new RedressError('OPTION_INVALID', `${message}.`)

/** A way to deliver notices. `email` and `webhook` make one; any object of this shape is one. */
export interface Channel {
  /** 'email', 'webhook', or a word of your own: shown in the delivery log. */
  readonly kind: string
  /** Tells it, or throws: what is thrown is retried, unless it is a `fail` with a code that is never retried. */
  deliver(notice: Notice, delivery: Delivery): Delivered | Promise<Delivered>
}

/** One attempt to deliver one notice through one channel. */
export interface Delivery {
  /** The same on every attempt, so that a receiver recognizes a duplicate. */
  readonly id: string
  readonly attempt: number
  /** Aborted when the attempt no longer counts. */
  readonly signal: AbortSignal
  readonly nowMs: number
  /** The recipients that were not reached yet; null = all of them. */
  readonly only: readonly string[] | null
  fail(code: DeliveryCode, options?: AttemptFailOptions): never
}

/** The answer of a channel: which recipients a notice has reached. */
export interface Delivered {
  /** The recipients that it reached; empty if there were none. */
  to: readonly string[]
  /** The answer of the receiving server. */
  answer: string
  /** Recipients that can never be reached. */
  refused?: readonly { to: string; answer: string }[]
  /** Recipients that were deferred, to be tried again without the others. */
  later?: readonly string[]
}

/** How a delivery can fail. The policy of deliveries decides what then. */
export const DELIVERY_CODES = failureCodes({
  CHANNEL_DOWN: {
    fault: 'dependency',
    retry: 'transient',
    message: 'The channel could not be reached.',
    waiting: 'The channel could not be reached. It will be tried again.',
  },
  CHANNEL_REFUSED: {
    fault: 'dependency',
    retry: 'transient',
    message: 'The other side did not take the notice.',
    waiting: 'The other side did not take the notice. It will be tried again.',
  },
  CHANNEL_GONE: {
    fault: 'dependency',
    retry: 'never',
    message: 'The other side does not want notices any more.',
  },
  SENDER_REFUSED: {
    fault: 'operator',
    retry: 'never',
    message: 'The mail server does not let us send: look at the login and the sender.',
  },
  RECIPIENT_REFUSED: {
    fault: 'caller',
    retry: 'never',
    message: 'The mail server will not deliver to this address.',
  },
  RECIPIENT_DEFERRED: {
    fault: 'dependency',
    retry: 'transient',
    message: 'The mail server kept putting us off.',
    waiting: 'The mail server put us off. It will be tried again.',
  },
  RECIPIENT_INVALID: { fault: 'code', retry: 'never', message: 'The channel was given something that is no address.' },
  RECIPIENT_NOT_ALLOWED: {
    fault: 'caller',
    retry: 'never',
    message: 'The address leads to where notices may not be sent.',
  },
  NOTICE_UNRENDERABLE: {
    fault: 'code',
    retry: 'transient',
    message: 'The notice could not be put into words, or it could not be found out whom to tell.',
  },
})

/** A failure code that a channel can fail with. */
export type DeliveryCode = keyof typeof DELIVERY_CODES & string
