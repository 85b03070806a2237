import type { Notice } from '../core/notices.ts'
import { failures } from '../core/taxonomy.ts'
import type { AttemptFailOptions } from '../worker/attempt.ts'

/** A way to tell somebody something. `email` and `webhook` make one; any object of this shape is one. */
export interface Channel {
  /** 'email', 'webhook', or a word of your own: shown in the delivery log. */
  readonly kind: string
  /** Tells it, or throws: what is thrown is retried, unless it is a `fail` with a code that is never retried. */
  deliver(notice: Notice, delivery: Delivery): Delivered | Promise<Delivered>
}

/** One attempt to deliver one notice through one channel. */
export interface Delivery {
  /** The same on every attempt: whoever hears it twice knows by this that it is the same. */
  readonly id: string
  readonly attempt: number
  /** Aborted when the attempt no longer counts. */
  readonly signal: AbortSignal
  readonly nowMs: number
  /** Some were reached before: only these are left. null = everybody. */
  readonly only: readonly string[] | null
  fail(code: DeliveryCode, options?: AttemptFailOptions): never
}

export interface Delivered {
  /** Whom it reached; nobody where there was nobody to tell. */
  to: readonly string[]
  /** What the other side said. */
  answer: string
  /** Who will never be reached. */
  refused?: readonly { to: string; answer: string }[]
  /** Who was put off, to be tried again without the others. */
  later?: readonly string[]
}

/** How a delivery can fail. The policy of deliveries decides what then. */
export const DELIVERY_CODES = failures({
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

export type DeliveryCode = keyof typeof DELIVERY_CODES & string
