import type { FastifyRequest } from 'fastify'
import { RedressError } from '../../core/errors.ts'
import { affordable, affordableAtMs, afterTaking, creditsAt, type Meter } from '../../core/limits/rate.ts'
import type { RatePolicy } from '../../core/policy/flow.ts'
import { authenticate } from '../../operations/accounts/authenticate.ts'
import { type Caller, LOCAL_ADMIN } from '../../operations/caller.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { Store } from '../../store/contract/store.ts'
import { clientAddress } from './client-address.ts'

export interface CallerOptions {
  store: () => Promise<Store>
  wrong: WrongSecrets
  cookieName: string
  /** false: no sign-in, every caller is an admin. Only for a loopback address. */
  isAuthOn: boolean
}

/** The caller, by a token in the header or the session of a browser; null if unknown. */
export type FindCaller = (request: FastifyRequest) => Promise<Caller | null>

export function openCallers({ store, wrong, cookieName, isAuthOn }: CallerOptions): FindCaller {
  return async (request) => {
    if (!isAuthOn) return LOCAL_ADMIN
    const secret = bearerOf(request) ?? request.cookies[cookieName]
    if (secret === undefined || secret === '') return null
    const caller = await authenticate(await store(), secret)
    if (caller !== null) return caller
    // A good secret is let in whatever others from its address did: behind a proxy, all of them may have the same one.
    const address = clientAddress(request)
    const waitMs = wrong.waitMs(address)
    if (waitMs > 0) throw tooMany(waitMs)
    wrong.count(address)
    return null
  }
}

export async function firstOf(ways: readonly FindCaller[], request: FastifyRequest): Promise<Caller | null> {
  for (const find of ways) {
    const caller = await find(request)
    if (caller !== null) return caller
  }
  return null
}

/** An app can authenticate its own users, but only as owners. */
export const asOwner =
  (find: FindCaller): FindCaller =>
  async (request) => {
    const caller = await find(request)
    if (caller === null || (caller.role === 'owner' && caller.account !== null && caller.scopes !== null)) return caller
    throw new Error(`an app let ${caller.name} in as more than an owner with scopes`)
  }

export async function neededCaller(find: FindCaller, request: FastifyRequest): Promise<Caller> {
  const caller = await find(request)
  if (caller !== null) return caller
  const isShown = bearerOf(request) !== undefined
  throw new RedressError(
    'SIGN_IN_REQUIRED',
    isShown ? 'This token is not valid: it is unknown, revoked or expired.' : 'Sign in or send a token.',
  )
}

export const tooMany = (waitMs: number): RedressError =>
  new RedressError('TOO_MANY_REQUESTS', `Too many wrong secrets; try again in ${Math.ceil(waitMs / 1000)} s.`, {
    retryAfterMs: waitMs,
  })

function bearerOf(request: FastifyRequest): string | undefined {
  const { authorization } = request.headers
  return authorization === undefined ? undefined : /^bearer (\S+)$/i.exec(authorization.trim())?.[1]
}

const ADDRESSES_MAX = 10_000
const MINUTE_MS = 60_000

/** Rate limit of wrong secrets per address, for a bounded number of addresses. */
export class WrongSecrets {
  readonly #clock: Clock
  readonly #rate: RatePolicy
  readonly #meters = new Map<string, Meter>()

  constructor(clock: Clock, perMinute: number) {
    this.#clock = clock
    this.#rate = { max: perMinute, perMs: MINUTE_MS, burst: perMinute, scope: 'type' }
  }

  /** How long this address must wait; 0 when it may try. */
  waitMs(address: string): number {
    const nowMs = this.#clock.nowMs()
    const credits = creditsAt(this.#meters.get(address) ?? null, this.#rate, nowMs)
    return affordable(credits, this.#rate) > 0 ? 0 : affordableAtMs(credits, this.#rate, nowMs) - nowMs
  }

  count(address: string): void {
    const nowMs = this.#clock.nowMs()
    const credits = creditsAt(this.#meters.get(address) ?? null, this.#rate, nowMs)
    this.#meters.delete(address)
    // The one that was quiet for longest goes first.
    if (this.#meters.size >= ADDRESSES_MAX) this.#meters.delete(this.#meters.keys().next().value as string)
    this.#meters.set(address, afterTaking(credits, 1, this.#rate, nowMs))
  }
}
