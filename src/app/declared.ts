import { checkRules } from '../core/classify.ts'
import { RedressError } from '../core/errors.ts'
import type { IsMapped, OwnerCode, OwnerCodes } from '../core/for-owner.ts'
import { checkPolicyCodes, policy as makePolicy } from '../core/policy.ts'
import { ENGINE_CODES, failures, type Taxonomy, withEngineCodes } from '../core/taxonomy.ts'
import { type AttemptFailOptions, failWith } from '../worker/attempt.ts'
import type { Handler } from '../worker/handler.ts'
import type { JobDefinition } from './job-type.ts'
import { readInput } from './read-input.ts'
import type { LastSeenHook, RetryHook } from './retry-hook.ts'

/** A job type as an app keeps it: what its workers need, and what is asked at submission and before a retry. */
export interface Declared {
  handler: Handler
  queue: string
  admit: ((input: unknown, owner: string | null) => unknown) | null
  limitKey: ((input: unknown) => unknown) | null
  admitRetry: RetryHook | null
  lastSeen: LastSeenHook | null
  queuedAs: string | null
  /** The failure codes that the type's author declared, without the engine's codes. */
  ownCodes: Taxonomy
  /** The code that owners see instead of engine codes; null shows them unchanged. */
  ownersSee: OwnerCode | null
}

/** Checks a definition; what contradicts itself is refused before it is used. */
export function declaredOf(
  name: string,
  // biome-ignore lint/suspicious/noExplicitAny: it takes every job type, and what its handler says of it is not its business
  definition: JobDefinition<any, any, any, any>,
  ownSlots: number | null,
): Declared {
  const ownCodes: Taxonomy = failures(definition.codes ?? {})
  const codes: Taxonomy = withEngineCodes<string>(ownCodes)
  const rules = definition.classify ?? []
  checkRules(rules, codes)
  const policy = makePolicy(definition.policy)
  checkPolicyCodes(policy, codes)
  const { admit, admitRetry, limitKey, slotsMax, lastSeen, queuedAs, acquire, verify } = definition
  return {
    ownCodes,
    ownersSee: definition.ownersSee === undefined ? null : shownAs(definition.ownersSee, ownCodes),
    queue: definition.queue ?? 'default',
    admit:
      admit === undefined
        ? null
        : (input, owner) =>
            admit(input as never, {
              type: name,
              owner,
              fail: (code, options) => {
                throw failWith(code, options)
              },
            }),
    limitKey: limitKey?.bind(definition) ?? null,
    lastSeen: lastSeen?.bind(definition) ?? null,
    queuedAs: queuedAs ?? null,
    admitRetry:
      admitRetry === undefined
        ? null
        : (input, { jobId, type, owner, actor, mode, failure }) => {
            const fail = (code: string, options?: AttemptFailOptions): never => {
              throw failWith(code, options)
            }
            const before = failure === null ? null : { code: failure.code, context: failure.context }
            return admitRetry(input as never, { jobId, type, owner, actor, mode, failure: before, fail })
          },
    handler: {
      type: name,
      queue: definition.queue ?? 'default',
      policy,
      codes,
      ownSlots,
      rules,
      readInput: (payload) => readInput(name, definition.input, payload),
      slotsMax: slotsMax?.bind(definition) ?? null,
      // Bound, not wrapped: a wrapper would stand in every stack.
      acquire: (acquire?.bind(definition) as Handler['acquire'] | undefined) ?? null,
      run: definition.run.bind(definition) as Handler['run'],
      verify: (verify?.bind(definition) as Handler['verify'] | undefined) ?? null,
    },
  }
}

function shownAs(code: string, codes: Taxonomy): OwnerCode {
  const spec = Object.hasOwn(codes, code) ? codes[code] : undefined
  if (spec === undefined) {
    throw new RedressError('TAXONOMY_INVALID', `ownersSee must be one of the type's own codes; got ${code}.`)
  }
  return { code, message: spec.message, waiting: spec.waiting ?? spec.message }
}

/** Lookups that HTTP and the CLI make about the codes of the declared job types. */
export interface DeclaredCodes {
  /**
   * Returns null for the type's own codes, and if the type declares no `ownersSee`: owners then see the code
   * unchanged.
   */
  forOwner: OwnerCodes
  isMapped: IsMapped
  /** The message of a code in the type's own table; null if the table does not list it. */
  messageOf(type: string, code: string): string | null
}

export function codesOf(all: ReadonlyMap<string, Declared>): DeclaredCodes {
  const own = (type: string, code: string) => {
    const codes = all.get(type)?.ownCodes ?? {}
    return Object.hasOwn(codes, code) ? codes[code] : undefined
  }
  return {
    forOwner: (type, code) => (own(type, code) === undefined ? (all.get(type)?.ownersSee ?? null) : null),
    isMapped: (code) =>
      [...all.values()].some(
        ({ ownersSee, ownCodes }) =>
          ownersSee !== null &&
          (ownersSee.code === code || (Object.hasOwn(ENGINE_CODES, code) && !Object.hasOwn(ownCodes, code))),
      ),
    messageOf: (type, code) => own(type, code)?.message ?? null,
  }
}
