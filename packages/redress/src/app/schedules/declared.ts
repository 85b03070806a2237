import { packInput } from '../../core/text/json-value.ts'
import { refuseUnknownOptions } from '../../core/text/options.ts'
import type { ScheduleDeclaration } from '../../store/contract/schedules.ts'
import type { Store } from '../../store/contract/store.ts'
import type { AppHost } from '../host.ts'
import { newJob } from '../jobs/submission.ts'
import {
  checkScheduleName,
  checkTiming,
  invalid,
  named,
  SCHEDULE_FIELDS,
  type ScheduleDefinition,
  type ScheduleTick,
  typeNameOf,
} from './definition.ts'
import { ticksOf } from './ticks.ts'

type Declared = Omit<ScheduleDeclaration, 'name' | 'timedAtMs' | 'nextAtMs'> & {
  makeInput: ((tick: ScheduleTick) => unknown) | null
}

// biome-ignore lint/suspicious/noExplicitAny: whether the input fits the job type is checked where `schedule` is called
type AnyDefinition = ScheduleDefinition<any>

const INPUT_BYTES_MAX = 1024 * 1024

/** The schedules that a program declares. */
export class DeclaredSchedules {
  readonly #host: AppHost
  readonly #declared = new Map<string, Declared>()

  constructor(host: AppHost) {
    this.#host = host
  }

  get names(): string[] {
    return [...this.#declared.keys()]
  }

  declare(name: string, definition: AnyDefinition): void {
    checkScheduleName(name)
    if (this.#declared.has(name)) throw invalid(`The schedule ${name} was declared already`, 'Give each its own name.')
    refuseUnknownOptions(`The schedule ${name}`, definition, SCHEDULE_FIELDS)
    try {
      this.#declared.set(name, this.#checked(definition))
    } catch (error) {
      throw named(name, error, 'declared')
    }
  }

  #checked(definition: AnyDefinition): Declared {
    const { job, input = {}, owner, priority, ...timing } = definition ?? {}
    const type = typeNameOf(job)
    const checked = checkTiming(timing, this.#host.clock.nowMs())
    const makeInput = typeof input === 'function' ? (input as Declared['makeInput']) : null
    const payload = makeInput === null ? packInput(`The input of ${type}`, input, INPUT_BYTES_MAX) : null
    const options = { ...(owner !== undefined && { owner }), ...(priority !== undefined && { priority }) }
    const { owner: of, priority: with_ } = newJob(type, '', options, () => '')
    return { ...checked, type, payload, makeInput, owner: of, priority: with_ }
  }

  /** Makes what was declared known to the store. */
  async register(store: Store): Promise<void> {
    if (this.#declared.size === 0) return
    const nowMs = await store.nowMs()
    const schedules = [...this.#declared].map(([name, { makeInput: _, ...declared }]) =>
      declarationOf(name, declared, nowMs),
    )
    await store.declareSchedules({ schedules })
  }

  /** The input of a run; undefined where another program declares the schedule, and so makes the input. */
  async inputOf(tick: ScheduleTick, payload: string | null): Promise<unknown> {
    if (payload !== null) return JSON.parse(payload) as unknown
    return this.#declared.get(tick.schedule)?.makeInput?.(tick)
  }
}

/** With its first tick, if its timing begins now. */
export function declarationOf(
  name: string,
  declared: Omit<ScheduleDeclaration, 'name' | 'timedAtMs' | 'nextAtMs'>,
  nowMs: number,
): ScheduleDeclaration {
  const timed = { ...declared, timedAtMs: nowMs }
  return { name, ...timed, nextAtMs: ticksOf(timed).nextMs(nowMs) }
}
