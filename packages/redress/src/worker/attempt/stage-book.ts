import { type Captured, captureFailure } from '../../core/failure/capture.ts'
import type { Rule } from '../../core/failure/classify.ts'
import { chainOf } from '../../core/failure/facts.ts'
import {
  type CheckedStage,
  type GaveUp,
  LAST_ERRORS_MAX,
  StageLog,
  type StageRecord,
  type StageSummary,
  TRY_CHARS_MAX,
  type TryRecord,
} from '../../core/failure/stage.ts'
import { clip, redactValue } from '../../core/text/redact.ts'
import type { Chance } from '../../runtime/chance.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { Handler } from './handler.ts'

/** What the stages of an attempt stand on. A flight is one. */
export interface StageGround {
  readonly handler: Handler
  readonly deadlineMonoMs: number
  /** `run` has ended, and `verify` has the attempt. */
  readonly isVerifying: boolean
  readonly world: StageWorld
  storeNowMs(monoMs: number): number
}

export interface StageWorld {
  readonly clock: Clock
  readonly chance: Chance
  /** Called when a try has ended, either way. */
  readonly onTry?: ((type: string, stage: string, ms: number) => void) | undefined
}

/** A stage that gave up: what is known about the error it gave up with. */
export interface GivenUp {
  /** null when a time limit stopped it. */
  why: GaveUp | null
  record: StageRecord
  context: Readonly<Record<string, unknown>>
  /** Those that named the error's code: the attempt must not name it otherwise. */
  rules: readonly Rule[]
  /** Why it ends the job, if it does. */
  final: { rule: string; because: string } | null
}

/** A stage on its way. */
export interface OpenStage {
  readonly stage: CheckedStage
  /** With the names of the stages around it. */
  readonly path: string
  readonly line: StageSummary
  readonly lastErrors: TryRecord[]
  number: number
  /** What the author said about the try under way. */
  context: Record<string, unknown> | null
}

const TRY_CONTEXT_BOUNDS = { depthMax: 3, keysMax: 20, itemsMax: 20, textCharsMax: 200, totalCharsMax: 600 }

/** What an attempt remembers of its stages; made when it first enters one. */
export class StageBook {
  readonly ground: StageGround
  readonly world: StageWorld
  readonly #log = new StageLog()
  readonly #open = new Set<OpenStage>()
  /** By the very error that was thrown, so that the author's code meets errors as they are, never a wrapper. */
  readonly #byError = new WeakMap<object, GivenUp>()
  /** For what is not an object; only the newest can be told apart. */
  #byValue: { thrown: unknown; givenUp: GivenUp } | null = null

  constructor(ground: StageGround) {
    this.ground = ground
    this.world = ground.world
  }

  begin(stage: CheckedStage, path: string): OpenStage {
    const open = { stage, path, line: this.#log.begun(stage), lastErrors: [], number: 0, context: null }
    this.#open.add(open)
    return open
  }

  end(open: OpenStage): void {
    this.#open.delete(open)
  }

  /** Named by the same rules that would name it if it ended the attempt. */
  capture(thrown: unknown, rules: readonly Rule[], nowMonoMs: number): Captured {
    const { handler, isVerifying } = this.ground
    const phase = isVerifying ? 'verification' : 'execution'
    const { type, codes } = handler
    return captureFailure({ thrown, phase, type, codes, rules, nowMs: this.ground.storeNowMs(nowMonoMs) })
  }

  /** Adds a failed try to the record of its stage. Answers with what it said, in one short line. */
  failed({ lastErrors, number, context }: OpenStage, { failure }: Captured): string {
    const said = clip(failure.detail.split('\n', 1)[0] ?? '', TRY_CHARS_MAX)
    const { httpStatus } = failure.context
    lastErrors.push({
      try: number,
      code: failure.code,
      said,
      ...(typeof httpStatus === 'number' && { httpStatus }),
      ...(context !== null && { context: redactValue(context, TRY_CONTEXT_BOUNDS) }),
    })
    if (lastErrors.length > LAST_ERRORS_MAX) lastErrors.shift()
    return said
  }

  gaveUp(open: OpenStage, thrown: unknown, why: GaveUp, rules: readonly Rule[], final: GivenUp['final']): void {
    // The stage nearest to the error describes it; a stage around it adds only what that one does not say.
    const inner = this.#find(thrown)
    const givenUp: GivenUp = {
      why,
      record: inner?.record ?? recordOf(open, why),
      context: { ...open.context, ...inner?.context },
      rules: inner?.rules ?? rules,
      final: inner?.final ?? final,
    }
    if (typeof thrown === 'object' && thrown !== null) this.#byError.set(thrown, givenUp)
    else this.#byValue = { thrown, givenUp }
  }

  /** The stage that gave up with this error, or with what it was caused by. */
  givenUpWith(thrown: unknown): GivenUp | null {
    for (const link of chainOf(thrown)) {
      const found = this.#find(link)
      if (found !== null) return found
    }
    return null
  }

  /** The stage that a time limit of the whole attempt cut short: the newest, when there are several. */
  cutShort(): GivenUp | null {
    const open = [...this.#open].at(-1)
    if (open === undefined) return null
    const record = recordOf(open, 'stopped')
    return { why: null, record, context: { ...open.context }, rules: this.ground.handler.rules, final: null }
  }

  summary(): StageSummary[] | null {
    return this.#log.summary()
  }

  #find(thrown: unknown): GivenUp | null {
    if (typeof thrown === 'object' && thrown !== null) return this.#byError.get(thrown) ?? null
    return this.#byValue !== null && Object.is(this.#byValue.thrown, thrown) ? this.#byValue.givenUp : null
  }
}

function recordOf({ path, number, stage, lastErrors }: OpenStage, gaveUp: StageRecord['gaveUp']): StageRecord {
  return { name: path, tries: number, max: stage.max, gaveUp, lastErrors: [...lastErrors] }
}
