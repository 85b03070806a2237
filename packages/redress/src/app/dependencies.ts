import { RedressError } from '../core/errors.ts'
import { nextChangeAtMs } from '../core/limits/breaker.ts'
import { type Duration, durationMs } from '../core/text/duration.ts'
import { isName } from '../core/text/names.ts'
import { optionNames, refuseUnknownOptions } from '../core/text/options.ts'
import { redactAndClip } from '../core/text/redact.ts'
import type { BreakerEvent, StoredBreaker } from '../store/contract/breakers.ts'
import type { Store } from '../store/contract/store.ts'
import type { Duty } from '../worker/duty.ts'
import type { AppHost } from './host.ts'
export interface DependencyOptions {
  /** Asks the dependency how it is, in the cheapest way there is. A throw or a rejection means: not well. */
  probe: (params: { signal: AbortSignal }) => unknown
  /** From the end of one probe to the beginning of the next, while the breaker is not closed. 5 s when left out. */
  every?: Duration
  /** A probe that takes longer has failed. 5 s when left out. */
  timeout?: Duration
}

const OPTIONS = optionNames<DependencyOptions>({ probe: true, every: true, timeout: true })

export interface ProbeReport {
  passed: boolean
  said: string
}

interface Dependency {
  probe: DependencyOptions['probe']
  everyMs: number
  timeoutMs: number
}

const LOOK_MS = 500
const EVERY_MS_DEFAULT = 5_000
/** A probe that hangs is given up here first, and only then may another process begin one. */
const LEASE_MARGIN_MS = 1_000
/** So long after the last word of this process, jobs are tried instead of its health probe. */
const OFFER_MS = 30_000
const EVENTS_MAX = 100
const SAID_CHARS_MAX = 300
/** A probe that answers at once is counted in the same round; a slow one is left to itself. */
const TURNS_WAITED = 20

/** The health probes that a program has for its dependencies, and what it says of their breakers in its log. */
export class Dependencies implements Duty {
  readonly name = 'breakers'
  readonly everyMs = LOOK_MS
  readonly #host: AppHost
  /** The breakers that the declared job types name. */
  readonly #guarded: () => readonly string[]
  readonly #declared = new Map<string, Dependency>()
  readonly #offeredMonoMs = new Map<string, number>()
  readonly #toldSeq = new Map<string, number>()
  #isRunning = false

  constructor(host: AppHost, guarded: () => readonly string[]) {
    this.#host = host
    this.#guarded = guarded
  }

  declare(name: string, options: DependencyOptions): void {
    refuseUnknownOptions(`The dependency ${name}`, options, OPTIONS)
    const { probe, every = EVERY_MS_DEFAULT, timeout = EVERY_MS_DEFAULT } = options ?? {}
    if (!isName(name)) {
      const message = `${JSON.stringify(name)} is not a name for a dependency: begin with a letter, then letters, digits and . _ : -`
      throw new RedressError('OPTION_INVALID', message)
    }
    if (typeof probe !== 'function') {
      throw new RedressError('OPTION_INVALID', `The dependency ${name} has no \`probe\`: a function that asks it.`)
    }
    if (this.#declared.has(name)) {
      throw new RedressError('OPTION_INVALID', `The dependency ${name} was declared already.`)
    }
    const [everyMs, timeoutMs] = [durationMs(every, 'every'), durationMs(timeout, 'timeout')]
    if (everyMs === 0 || timeoutMs === 0) {
      throw new RedressError(
        'OPTION_INVALID',
        `every and timeout of the dependency ${name} must be longer than nothing.`,
      )
    }
    this.#declared.set(name, { probe, everyMs, timeoutMs })
  }

  readonly run = async (): Promise<void> => {
    const names = this.#names()
    // Each worker of this process asks for it; one round at a time, or the same event would be reported twice.
    if (names.length === 0 || this.#isRunning) return
    this.#isRunning = true
    try {
      await this.#round(names)
    } finally {
      this.#isRunning = false
    }
  }

  async #round(names: readonly string[]): Promise<void> {
    const store = await this.#host.store()
    for (const name of names) await this.#tell(store, name)
    for (const name of this.#declared.keys()) await this.#offer(store, name)
    const probes = [...this.#declared].map(([name, dependency]) => this.#probe(store, name, dependency, false))
    await Promise.race([Promise.all(probes), turns(TURNS_WAITED)])
  }

  readonly nextAtMs = async (): Promise<number | null> => {
    const names = this.#names()
    if (names.length === 0) return null
    const times = (await this.#breakers(names)).flatMap((breaker) => nextChangeAtMs(breaker, breaker.nowMs) ?? [])
    return times.length === 0 ? null : Math.min(...times)
  }

  /** Now, because a person asked. null where this program has no probe for it. */
  async probeNow(name: string): Promise<ProbeReport | 'busy' | null> {
    const dependency = this.#declared.get(name)
    if (dependency === undefined) return null
    return (await this.#probe(await this.#host.store(), name, dependency, true)) ?? 'busy'
  }

  #names(): string[] {
    return [...new Set([...this.#guarded(), ...this.#declared.keys()])]
  }

  async #breakers(names: readonly string[]): Promise<StoredBreaker[]> {
    const all = await (await this.#host.store()).breakers()
    return all.filter(({ name }) => names.includes(name))
  }

  /** While this process lives, no job is risked to find out how the dependency is. */
  async #offer(store: Store, name: string): Promise<void> {
    const nowMonoMs = this.#host.clock.monoMs()
    const { everyMs = 0, timeoutMs = 0 } = this.#declared.get(name) ?? {}
    const offeredMonoMs = this.#offeredMonoMs.get(name) ?? Number.NEGATIVE_INFINITY
    if (nowMonoMs - offeredMonoMs < OFFER_MS / 3) return
    await store.offerProbe({ name, forMs: OFFER_MS + everyMs + timeoutMs })
    this.#offeredMonoMs.set(name, nowMonoMs)
  }

  /** null when none is due, or another process makes one. */
  async #probe(
    store: Store,
    name: string,
    { probe, everyMs, timeoutMs }: Dependency,
    isAsked: boolean,
  ): Promise<ProbeReport | null> {
    try {
      if (!isAsked && !(await isDue(store, name))) return null
      const ticket = await store.beginProbe({ name, ttlMs: timeoutMs + LEASE_MARGIN_MS, isAsked })
      if (ticket === null) return null
      const report = await this.#ask(probe, timeoutMs)
      await store.endProbe({ ticket, outcome: { ...report, everyMs } })
      if (!report.passed) this.#host.log.warn({ breaker: name, said: report.said }, 'a health probe failed')
      return report
    } catch (error) {
      this.#host.log.error({ err: error, breaker: name }, 'a health probe could not be made or counted')
      return null
    }
  }

  async #ask(probe: DependencyOptions['probe'], timeoutMs: number): Promise<ProbeReport> {
    const stop = new AbortController()
    let giveUp: (report: ProbeReport) => void = () => undefined
    const tooLong = new Promise<ProbeReport>((resolve) => {
      giveUp = resolve
    })
    const timer = this.#host.clock.setTimer(timeoutMs, () => {
      giveUp({ passed: false, said: `no answer within ${timeoutMs} ms` })
      stop.abort(new Error('the health probe took too long'))
    })
    const asked = (async () => probe({ signal: stop.signal }))().then(
      (): ProbeReport => ({ passed: true, said: '' }),
      (thrown: unknown): ProbeReport => ({ passed: false, said: wordsOf(thrown) }),
    )
    const report = await Promise.race([asked, tooLong])
    timer.cancel()
    return report
  }

  /** Each change of a breaker is a line in the log of every process that it concerns (E11). */
  async #tell(store: Store, name: string): Promise<void> {
    const afterSeq = this.#toldSeq.get(name)
    if (afterSeq === undefined) {
      // Only what happens from now on, and how it stands.
      const newest = await store.breakerEvents({ name, afterSeq: 0, limit: Number.MAX_SAFE_INTEGER })
      this.#toldSeq.set(name, newest.at(-1)?.seq ?? 0)
      const [standing] = await store.standings({ names: [name] })
      if (standing !== undefined && standing.status !== 'closed') {
        this.#host.log.warn({ breaker: name, state: standing.status }, `breaker ${name}: ${standing.why}`)
      }
      return
    }
    for (const event of await store.breakerEvents({ name, afterSeq, limit: EVENTS_MAX })) {
      this.#toldSeq.set(name, event.seq)
      this.#log(name, event)
    }
  }

  #log(name: string, { kind, data }: BreakerEvent): void {
    const { status, reason, actor } = data
    const by = actor === undefined ? '' : ` by ${actor}`
    this.#host.log.warn(
      { breaker: name, state: status, event: `breaker.${kind}`, ...(actor !== undefined && { actor }) },
      `breaker ${name} ${WORDS[kind]}${by}: ${reason}`,
    )
  }
}

const WORDS: Readonly<Record<BreakerEvent['kind'], string>> = {
  opened: 'opened',
  'half-open': 'is half open',
  closed: 'closed',
  forced: 'was forced',
  released: 'was released',
}

/** Asked without the write lock: nearly always nothing is due. */
async function isDue(store: Store, name: string): Promise<boolean> {
  const [standing] = await store.standings({ names: [name] })
  if (standing === undefined || standing.status === 'closed') return false
  const nowMs = await store.nowMs()
  return (standing.nextChangeAtMs ?? nowMs) <= nowMs
}

function wordsOf(thrown: unknown): string {
  const text = thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : String(thrown)
  return redactAndClip(text, SAID_CHARS_MAX)
}

async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise<void>((resolve) => setImmediate(resolve))
}
