import { RedressError } from '../core/errors.ts'
import { filesOwnerOf } from '../core/job/deleted.ts'
import { nearest } from '../core/text/names.ts'
import type { Handler, TypeFacts } from '../worker/attempt/call-handler.ts'

/** Which job types a worker runs, and how many jobs of each at once. Without any of these, it runs all of its program. */
export interface TypeChoice {
  /** Only job types of these queues. */
  queues?: readonly string[]
  /** Only these job types. Where `queues` is given too, a type must pass both. */
  types?: readonly (string | { readonly name: string })[]
  /** How many of this worker's slots jobs of a type may use at once: `{ 'pdf.convert': 2 }`. */
  perType?: Readonly<Record<string, number>>
}

/** Picks the handlers of one worker out of all that the program implements. */
export type Choose = (handlers: readonly Handler[]) => Handler[]

/** The types that a program declares, as the choice is compared with them. */
interface Declared {
  readonly facts: readonly TypeFacts[]
  get(type: string): { facts: TypeFacts } | undefined
}

/** Checks a choice against the types that are declared now. The same rules choose among types that are declared later. */
export function chooserOf(choice: TypeChoice, declared: Declared): Choose {
  const queues = namesOf('queues', choice.queues)
  const types = namesOf('types', choice.types)
  const slots = slotsOf(choice.perType)
  const knownTypes = declared.facts.map(({ type }) => type)
  const knownQueues = [...new Set(declared.facts.map(({ queue }) => queue))]
  for (const name of queues ?? []) requireKnown('queues', 'a queue', name, knownQueues)
  for (const name of types ?? []) requireKnown('types', 'a job type', name, knownTypes)
  for (const name of slots.keys()) requireKnown('perType', 'a job type', name, knownTypes)

  const matches = ({ type, queue }: TypeFacts): boolean =>
    (queues === null || queues.has(queue)) && (types === null || types.has(type))
  // Jobs that remove the files of a deleted job run where the jobs of its type run.
  const isChosen = (facts: TypeFacts): boolean => {
    const owner = declared.get(filesOwnerOf(facts.type) ?? '')
    return matches(facts) || (owner !== undefined && matches(owner.facts))
  }
  const isRun = (type: string): boolean => isChosen((declared.get(type) as { facts: TypeFacts }).facts)
  if (queues !== null && types !== null && ![...types].some(isRun)) {
    throw invalid(
      `none of the types ${shown(types)} is in the queues ${shown(queues)}: this worker would run no job.`,
      'Leave out one of the two options, or name types of these queues.',
    )
  }
  for (const name of slots.keys()) {
    if (isRun(name)) continue
    throw invalid(
      `perType names ${JSON.stringify(name)}, which this worker does not run.`,
      'Add it to `types` and its queue to `queues`, or remove it from `perType`.',
    )
  }
  return (handlers) =>
    handlers
      // Deliveries of notices have slots of their own, and every worker of the program runs them.
      .filter((handler) => handler.ownSlots !== null || isChosen(handler))
      .map((handler) => limited(handler, slots.get(handler.type)))
}

/**
 * The types that a worker should run and cannot, because this program has no handler for them yet: those that the choice
 * names, or all of them if it has a handler for none. A program that runs some of its types and submits the others is usual.
 */
export function withoutHandler(
  { types, queues }: TypeChoice,
  declared: Declared,
  handlers: readonly Handler[],
): string[] {
  const names = namesOf('types', types)
  const isWanted = ({ type, queue }: TypeFacts): boolean =>
    (queues?.includes(queue) ?? true) && (names?.has(type) ?? true)
  const wanted = declared.facts.filter(isWanted).map(({ type }) => type)
  const missing = wanted.filter((type) => !handlers.some((handler) => handler.type === type))
  return names !== null || missing.length === wanted.length ? missing : []
}

function limited(handler: Handler, slotsMax: number | undefined): Handler {
  if (slotsMax === undefined) return handler
  const own = handler.slotsMax
  return { ...handler, slotsMax: own === null ? () => slotsMax : () => Math.min(slotsMax, own()) }
}

function namesOf(option: 'queues' | 'types', given: TypeChoice['types']): ReadonlySet<string> | null {
  if (given === undefined) return null
  if (!Array.isArray(given) || given.length === 0) {
    throw invalid(`${option} must be a list of at least one name; got ${JSON.stringify(given) ?? String(given)}.`)
  }
  return new Set(given.map((one) => nameOf(option, one)))
}

function nameOf(option: 'queues' | 'types', given: unknown): string {
  if (typeof given === 'string') return given
  const name = option === 'types' && typeof given === 'object' ? (given as { name?: unknown } | null)?.name : undefined
  if (typeof name === 'string') return name
  const what = option === 'types' ? 'names of job types, or job types' : 'names of queues'
  throw invalid(`${option} must be a list of ${what}; got ${given === null ? 'null' : `a ${typeof given}`}.`)
}

function slotsOf(perType: TypeChoice['perType']): ReadonlyMap<string, number> {
  if (perType === undefined) return new Map()
  if (typeof perType !== 'object' || perType === null || Array.isArray(perType)) {
    throw invalid(`perType must be an object such as { 'pdf.convert': 2 }.`)
  }
  for (const [name, slots] of Object.entries(perType)) {
    if (Number.isSafeInteger(slots) && slots >= 1) continue
    throw invalid(
      `perType[${JSON.stringify(name)}] must be a whole number from 1; got ${String(slots)}.`,
      'To run no jobs of a type in this worker, leave it out of `types`.',
    )
  }
  return new Map(Object.entries(perType))
}

function requireKnown(option: string, what: string, name: string, known: readonly string[]): void {
  if (known.includes(name)) return
  const meant = nearest(name, known)
  const declared = known.length === 0 ? 'The app declares no job types yet.' : `Use one of: ${known.join(', ')}.`
  throw invalid(
    `${option} names ${JSON.stringify(name)}, which is not ${what} of this app.`,
    meant === null ? declared : `Did you mean ${JSON.stringify(meant)}?`,
  )
}

const shown = (names: ReadonlySet<string>): string => [...names].join(', ')

const invalid = (message: string, action?: string) =>
  new RedressError('OPTION_INVALID', `Invalid worker option: ${message}`, action === undefined ? {} : { action })
