import { HOUR_MS } from '../text/duration.ts'
import type { Fault } from './failure.ts'

/** `regressed`: it was resolved, and has happened again since. */
export const GROUP_STATES = ['open', 'snoozed', 'resolved', 'regressed'] as const
export type GroupState = (typeof GROUP_STATES)[number]

/** Failures with one fingerprint: the same job type, code, message and place in the code. */
export interface FailureGroup {
  fingerprint: string
  type: string
  code: string
  fault: Fault
  /** Of the newest failure. */
  message: string
  firstAtMs: number
  lastAtMs: number
  /** Failures, not jobs: a job that was tried three times counts three times. */
  count: number
  /** Those of them that ended their job. */
  final: number
  /** The newest of them, the newest first, one per job. */
  newest: readonly SampleFailure[]
  fields: TopValues
  /** By the number of the hour since 1970, the newest first; none older than a day before the newest. */
  hours: readonly HourCount[]
  state: GroupState
  stateAtMs: number
  stateBy: string | null
  stateReason: string | null
  /** `seq` of the newest failure of the store when the state was set: what comes after it is new. */
  stateSeq: number
  /** It stays snoozed until this time, */
  snoozedUntilMs: number | null
  /** or until it has this many failures, whichever comes first. */
  snoozedCount: number | null
}

interface SampleFailure {
  seq: number
  job: number
}
type HourCount = readonly [hour: number, count: number]

/** The failure as its group counts it. */
export interface GroupedFailure {
  seq: number
  job: number
  atMs: number
  fingerprint: string
  type: string
  code: string
  fault: Fault
  message: string
  context: Readonly<Record<string, unknown>>
  /** It ended its job. */
  isFinal: boolean
}

const HOURS_KEPT = 24
const SAMPLES_MAX = 10

/** The group with one failure more, and the state it came to if the failure changed it. */
export function addToGroup(
  group: FailureGroup | null,
  failure: GroupedFailure,
): { group: FailureGroup; became: 'open' | 'regressed' | null } {
  const before = group ?? emptyGroup(failure)
  const counted: FailureGroup = {
    ...before,
    code: failure.code,
    fault: failure.fault,
    message: failure.message,
    firstAtMs: Math.min(before.firstAtMs, failure.atMs),
    lastAtMs: Math.max(before.lastAtMs, failure.atMs),
    count: before.count + 1,
    final: before.final + (failure.isFinal ? 1 : 0),
    newest: [{ seq: failure.seq, job: failure.job }, ...before.newest.filter(({ job }) => job !== failure.job)].slice(
      0,
      SAMPLES_MAX,
    ),
    fields: countValues(before.fields, failure.context),
    hours: countHour(before.hours, Math.floor(failure.atMs / HOUR_MS)),
    // A failure from before the snooze that is counted late must not use up the snooze: its start count grows too.
    snoozedCount: before.snoozedCount === null ? null : before.snoozedCount + (failure.seq <= before.stateSeq ? 1 : 0),
  }
  const became = stateAfter(counted, failure)
  return { group: became === null ? counted : withState(counted, became, failure), became }
}

function stateAfter(group: FailureGroup, failure: GroupedFailure): 'open' | 'regressed' | null {
  // By number, not by time: a failure that was only counted late is no regression.
  if (group.state === 'resolved') return failure.seq > group.stateSeq ? 'regressed' : null
  return group.state === 'snoozed' && stateAt(group, failure.atMs) === 'open' ? 'open' : null
}

function withState(group: FailureGroup, state: 'open' | 'regressed', { atMs, seq }: GroupedFailure): FailureGroup {
  const cleared = { stateBy: null, stateReason: null, snoozedUntilMs: null, snoozedCount: null }
  return { ...group, ...cleared, state, stateAtMs: atMs, stateSeq: seq }
}

/** As it stands at a time: a snooze ends by itself, whether or not a worker has recorded that. */
export function stateAt({ state, count, snoozedUntilMs, snoozedCount }: FailureGroup, nowMs: number): GroupState {
  if (state !== 'snoozed') return state
  const isOver =
    (snoozedUntilMs !== null && snoozedUntilMs <= nowMs) || (snoozedCount !== null && snoozedCount <= count)
  return isOver ? 'open' : 'snoozed'
}

/** What a person may do to a group. `more` failures end a snooze before its time. */
export type GroupAct =
  | { to: 'resolved' }
  | { to: 'open' }
  | { to: 'snoozed'; forMs: number | null; more: number | null }

/** Which states each act leads from; from any other there is nothing to do. */
export const ACT_LEADS_FROM: Readonly<Record<GroupAct['to'], readonly GroupState[]>> = {
  resolved: ['open', 'snoozed', 'regressed'],
  // Snoozed again, its time is set anew.
  snoozed: ['open', 'snoozed', 'regressed'],
  open: ['snoozed', 'resolved', 'regressed'],
}

export function actOnGroup(
  group: FailureGroup,
  act: GroupAct,
  { actor, reason, nowMs, newestSeq }: { actor: string; reason: string; nowMs: number; newestSeq: number },
): FailureGroup {
  const { forMs, more } = act.to === 'snoozed' ? act : { forMs: null, more: null }
  return {
    ...group,
    state: act.to,
    stateAtMs: nowMs,
    stateBy: actor,
    stateReason: reason,
    stateSeq: newestSeq,
    snoozedUntilMs: forMs === null ? null : nowMs + forMs,
    snoozedCount: more === null ? null : group.count + more,
  }
}

/** How many in each of the last 24 hours, the present one last. */
export function lastDay({ hours }: FailureGroup, nowMs: number): { startMs: number; count: number }[] {
  const countOf = new Map(hours)
  const present = Math.floor(nowMs / HOUR_MS)
  return Array.from({ length: HOURS_KEPT }, (_, i) => {
    const hour = present - HOURS_KEPT + 1 + i
    return { startMs: hour * HOUR_MS, count: countOf.get(hour) ?? 0 }
  })
}

function countHour(hours: readonly HourCount[], hour: number): HourCount[] {
  const counts = new Map(hours)
  counts.set(hour, (counts.get(hour) ?? 0) + 1)
  const newest = Math.max(...counts.keys())
  return [...counts].filter(([one]) => one > newest - HOURS_KEPT).sort(([a], [b]) => b - a)
}

function emptyGroup(failure: GroupedFailure): FailureGroup {
  const { fingerprint, type, code, fault, message, atMs } = failure
  return {
    fingerprint,
    type,
    code,
    fault,
    message,
    firstAtMs: atMs,
    lastAtMs: atMs,
    count: 0,
    final: 0,
    newest: [],
    fields: NO_VALUES,
    hours: [],
    state: 'open',
    stateAtMs: atMs,
    stateBy: null,
    stateReason: null,
    stateSeq: 0,
    snoozedUntilMs: null,
    snoozedCount: null,
  }
}

/**
 * Which values a field mostly has, in bounded room, however many different ones go by. It is the space-saving counter
 * of Metwally, Agrawal and El Abbadi: a value that finds no room takes the place, and the count, of the rarest one. So
 * a count is never too low, it is too high by at most `over`, and a value that makes up more than a tenth of all
 * (1 / VALUES_MAX) is always there.
 */
export interface CountedValue {
  value: string
  /** At least as often as it was really seen. */
  count: number
  /** By how much `count` may be too high. */
  over: number
}

/** By the name of the field, in the order in which fields were first seen. */
export type TopValues = Readonly<Record<string, readonly CountedValue[]>>

export const FIELDS_MAX = 8
export const VALUES_MAX = 10
const VALUE_CHARS_MAX = 80
const NAME_CHARS_MAX = 60

/** Free text differs each time and would only push out values that say more. */
const PROSE: ReadonlySet<string> = new Set(['stderrTail', 'stdoutTail'])

export const NO_VALUES: TopValues = Object.freeze({})

/** Counts the plain values of a failure's context. Only the first fields that a group ever had are counted. */
export function countValues(seen: TopValues, context: Readonly<Record<string, unknown>>): TopValues {
  const counted = new Map(Object.entries(seen))
  for (const [name, value] of Object.entries(context)) {
    if (PROSE.has(name) || name.length > NAME_CHARS_MAX || !isPlain(value)) continue
    const values = counted.get(name)
    if (values === undefined && counted.size >= FIELDS_MAX) continue
    counted.set(name, countValue(values ?? [], shortened(String(value))))
  }
  return Object.fromEntries(counted)
}

/** The most frequent first; of equals, the one that was there first. */
export function countValue(values: readonly CountedValue[], value: string): CountedValue[] {
  const known = values.find((one) => one.value === value)
  if (known !== undefined) return ordered(values.map((one) => (one === known ? { ...one, count: one.count + 1 } : one)))
  if (values.length < VALUES_MAX) return ordered([...values, { value, count: 1, over: 0 }])
  const rarest = values.at(-1) as CountedValue
  return ordered([...values.slice(0, -1), { value, count: rarest.count + 1, over: rarest.count }])
}

const ordered = (values: CountedValue[]): CountedValue[] => values.sort((a, b) => b.count - a.count)

const isPlain = (value: unknown): boolean => ['string', 'number', 'boolean'].includes(typeof value)

function shortened(text: string): string {
  const line = text
    .slice(0, 4 * VALUE_CHARS_MAX)
    .replace(/\s+/g, ' ')
    .trim()
  // Well-formed, as it comes back from a database: half a character would be counted as another value each time.
  return (line.length <= VALUE_CHARS_MAX ? line : `${line.slice(0, VALUE_CHARS_MAX - 1)}…`).toWellFormed()
}
