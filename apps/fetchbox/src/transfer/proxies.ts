import { readFile } from 'node:fs/promises'
import { RedressError } from 'redress'
import { FetchFailure } from '../failures/failure.ts'

export interface ProxyHealthOptions {
  nowMs(): number
  /** Failures in a row that take a proxy out; 3 when left out. */
  failuresMax?: number
  /** How long it stays out the first time; 30 s when left out. Doubles each time its probe fails. */
  cooldownMs?: number
  /** 15 min when left out. */
  cooldownMsMax?: number
  /** Called each time a proxy is taken out of use, and when it is back. */
  onChange?: ((proxy: ProxyState) => void) | undefined
}

/** One use of a proxy. Exactly one of the three methods must be called at its end; later calls have no effect. */
export interface ProxyUse {
  /** "pool#n", counted from 1 (F4). */
  readonly name: string
  readonly url: string
  /** It did its work, whatever the origin answered. */
  worked(): void
  /**
   * The proxy failed. With `target`, it could not reach that origin: a target counts once in a row, so a dead origin
   * does not take healthy proxies out of use.
   */
  failed(why: string, target?: string): void
  /** The result is unknown: the work was stopped or failed for another reason. */
  undecided(): void
}

/** The state of one proxy, for operators. */
export interface ProxyState {
  name: string
  /** From 1. */
  tier: number
  state: 'healthy' | 'out' | 'probing'
  failuresInRow: number
  /** When it may be probed; null while it is healthy. */
  outUntilMs: number | null
  uses: number
  failures: number
  lastFailure: string | null
}

interface Proxy extends ProxyState {
  url: string
  cooldownMs: number
  /** A number that grows with each use: the proxy that waited longest is next. */
  lastUse: number
  targetsFailed: Set<string>
}

const FAILURES_MAX = 3
const COOLDOWN_MS = 30_000
const COOLDOWN_MS_MAX = 900_000

/** Chooses the next proxy and takes failing ones out of use. Each process keeps its own state. */
export class Proxies {
  readonly #tiers: readonly (readonly Proxy[])[]
  readonly #nowMs: () => number
  readonly #failuresMax: number
  readonly #cooldownMs: number
  readonly #cooldownMsMax: number
  readonly #onChange: (proxy: ProxyState) => void
  #uses = 0
  /** Resolved, and replaced, when the result of a probe is known. */
  #probeEnd = Promise.withResolvers<void>()

  constructor(tiers: ProxyTiers, options: ProxyHealthOptions) {
    this.#nowMs = options.nowMs
    this.#failuresMax = options.failuresMax ?? FAILURES_MAX
    this.#cooldownMs = options.cooldownMs ?? COOLDOWN_MS
    this.#cooldownMsMax = options.cooldownMsMax ?? COOLDOWN_MS_MAX
    this.#onChange = options.onChange ?? (() => undefined)
    this.#tiers = tiers.map((pools, i) =>
      pools.flatMap(({ pool, urls }) => urls.map((url, n) => this.#proxy(`${pool}#${n + 1}`, url, i + 1))),
    )
  }

  /**
   * The one that waited longest in the first tier that has a usable one. `avoid` is what the try before used: it is
   * taken again only when nothing else is usable in any tier (F8).
   */
  take(avoid: string | null = null): ProxyUse {
    const nowMs = this.#nowMs()
    const usable = this.#tiers.map((tier) => tier.filter((proxy) => isUsable(proxy, nowMs)))
    const others = usable.map((tier) => tier.filter(({ name }) => name !== avoid))
    const tier = others.find(({ length }) => length > 0) ?? usable.find(({ length }) => length > 0)
    const next = tier?.reduce((longest, proxy) => (proxy.lastUse < longest.lastUse ? proxy : longest))
    if (next === undefined) throw this.#exhausted(nowMs)
    if (next.state === 'out') next.state = 'probing'
    next.lastUse = ++this.#uses
    next.uses++
    return this.#use(next)
  }

  /**
   * As `take`, but waits for a running probe if no other proxy is usable. Without the wait, a try would be used up
   * for nothing: when a pool recovers, all waiting downloads ask at once, and one of them probes.
   */
  async next(avoid: string | null, signal: AbortSignal): Promise<ProxyUse> {
    for (;;) {
      signal.throwIfAborted()
      try {
        return this.take(avoid)
      } catch (error) {
        if (!this.#tiers.flat().some(({ state }) => state === 'probing')) throw error
      }
      await settledOrAborted(this.#probeEnd.promise, signal)
    }
  }

  snapshot(): ProxyState[] {
    return this.#tiers.flat().map(shownOf)
  }

  #proxy(name: string, url: string, tier: number): Proxy {
    return {
      name,
      url,
      tier,
      state: 'healthy',
      failuresInRow: 0,
      outUntilMs: null,
      uses: 0,
      failures: 0,
      lastFailure: null,
      cooldownMs: this.#cooldownMs,
      lastUse: 0,
      targetsFailed: new Set(),
    }
  }

  #use(proxy: Proxy): ProxyUse {
    const isProbe = proxy.state === 'probing'
    let isOpen = true
    const once = (act: () => void): void => {
      if (!isOpen) return
      isOpen = false
      act()
      if (!isProbe) return
      this.#probeEnd.resolve()
      this.#probeEnd = Promise.withResolvers()
    }
    return {
      name: proxy.name,
      url: proxy.url,
      worked: () => once(() => this.#worked(proxy, isProbe)),
      failed: (why, target) => once(() => this.#failed(proxy, isProbe, why, target)),
      undecided: () =>
        once(() => {
          // Due as before: the next one that needs a proxy probes it.
          if (isProbe) proxy.state = 'out'
        }),
    }
  }

  #worked(proxy: Proxy, isProbe: boolean): void {
    // One that began before the proxy was taken out says nothing about now; the probe will.
    if (proxy.state !== 'healthy' && !isProbe) return
    const isBack = proxy.state !== 'healthy'
    proxy.state = 'healthy'
    proxy.failuresInRow = 0
    proxy.outUntilMs = null
    proxy.cooldownMs = this.#cooldownMs
    proxy.targetsFailed.clear()
    if (isBack) this.#onChange(shownOf(proxy))
  }

  #failed(proxy: Proxy, isProbe: boolean, why: string, target: string | undefined): void {
    proxy.failures++
    proxy.lastFailure = why
    if (isProbe) {
      proxy.cooldownMs = Math.min(2 * proxy.cooldownMs, this.#cooldownMsMax)
      this.#takeOut(proxy)
      return
    }
    if (proxy.state !== 'healthy') return
    if (target !== undefined) {
      if (proxy.targetsFailed.has(target)) return
      proxy.targetsFailed.add(target)
    }
    if (++proxy.failuresInRow >= this.#failuresMax) this.#takeOut(proxy)
  }

  #takeOut(proxy: Proxy): void {
    proxy.state = 'out'
    proxy.outUntilMs = this.#nowMs() + proxy.cooldownMs
    proxy.targetsFailed.clear()
    this.#onChange(shownOf(proxy))
  }

  #exhausted(nowMs: number): FetchFailure {
    const all = this.#tiers.flat()
    // One that is being probed may be back at once, or not: a second is soon enough to look again.
    const waitsMs = all.map(({ state, outUntilMs }) =>
      state === 'out' && outUntilMs !== null ? outUntilMs - nowMs : 1000,
    )
    return new FetchFailure('DOWNLOAD_PROXY_EXHAUSTED', `none of ${all.length} proxies is usable`, {
      retryAfterMs: Math.max(0, Math.min(...waitsMs)),
    })
  }
}

function settledOrAborted(settled: Promise<void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      signal.removeEventListener('abort', done)
      resolve()
    }
    signal.addEventListener('abort', done)
    void settled.then(done)
  })
}

/** Without its URL, which has a password in it. */
function shownOf({ url: _, cooldownMs: __, lastUse: ___, targetsFailed: ____, ...shown }: Proxy): ProxyState {
  return shown
}

/** During a probe, other downloads use other proxies. */
function isUsable({ state, outUntilMs }: Proxy, nowMs: number): boolean {
  return state === 'healthy' || (state === 'out' && outUntilMs !== null && outUntilMs <= nowMs)
}

/** Proxies that belong together, by the name that operators know: "proxies/eu-primary". */
interface ProxyPool {
  pool: string
  /** `http://user:pass@host:port`; with https the proxy itself is spoken to over TLS. */
  urls: readonly string[]
}

/** Pools in tiers: the next tier is used while the one before has nothing usable. */
export type ProxyTiers = readonly (readonly ProxyPool[])[]

const POOL_NAME = /^[A-Za-z0-9][A-Za-z0-9._/-]{0,99}$/

export async function readProxies(path: string): Promise<ProxyTiers> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (cause) {
    const errno = (cause as { code?: string }).code ?? 'an error'
    throw invalid([`cannot be read (${errno})`], cause)
  }
  return parseProxies(text)
}

/** Names every mistake, but never the URL: it may contain a password. */
export function parseProxies(text: string): ProxyTiers {
  let given: unknown
  try {
    given = JSON.parse(text)
  } catch {
    // The parser's own sentence repeats a part of the text.
    throw invalid(['is not valid JSON'])
  }
  const tiers = (given as { tiers?: unknown } | null)?.tiers
  if (!Array.isArray(tiers) || tiers.length === 0) throw invalid(['needs "tiers", a list of lists of pools'])
  const names = new Set<string>()
  const problems = tiers.flatMap((tier, at) => tierProblems(tier, `tiers[${at}]`, names))
  if (problems.length > 0) throw invalid(problems)
  return tiers as ProxyTiers
}

function tierProblems(tier: unknown, at: string, names: Set<string>): string[] {
  if (!Array.isArray(tier) || tier.length === 0) return [`${at} must be a list of pools`]
  return tier.flatMap((pool, n) => poolProblems(pool, `${at}[${n}]`, names))
}

function poolProblems(given: unknown, at: string, names: Set<string>): string[] {
  const { pool, urls } = (given ?? {}) as { pool?: unknown; urls?: unknown }
  const problems: string[] = []
  if (typeof pool !== 'string' || !POOL_NAME.test(pool))
    problems.push(`${at}.pool must be a name: letters, digits, . _ / -`)
  else if (names.has(pool)) problems.push(`${at}.pool: there are two pools of the name ${pool}`)
  else names.add(pool)
  if (!Array.isArray(urls) || urls.length === 0) return [...problems, `${at}.urls must be a list of URLs`]
  const wrong = urls.flatMap((url, n) =>
    isProxyUrl(url) ? [] : [`${at}.urls[${n}] must be http://[user:pass@]host:port`],
  )
  return [...problems, ...wrong]
}

function isProxyUrl(url: unknown): boolean {
  const parsed = typeof url === 'string' ? URL.parse(url) : null
  return parsed !== null && /^https?:$/.test(parsed.protocol) && parsed.pathname === '/' && parsed.search === ''
}

function invalid(problems: readonly string[], cause?: unknown): RedressError {
  return new RedressError('OPTION_INVALID', `The file of proxies is not valid: it ${problems.join('; ')}.`, {
    problems,
    ...(cause !== undefined && { cause }),
  })
}
