import { RedressError } from '../errors.ts'
import type { Status } from '../job/states.ts'
import type { Policy } from '../policy/policy.ts'
import { SECOND_MS } from '../text/duration.ts'

/** The replay of many dead letters: its states, how many letters may go now, and what its first jobs say. */
export const REPLAY_STATES = [
  'planning',
  'planned',
  'canary',
  'running',
  'paused',
  'stopped',
  'done',
  'aborted',
] as const
export type ReplayState = (typeof REPLAY_STATES)[number]

export const REPLAY_ACTS = ['start', 'pause', 'resume', 'abort'] as const
export type ReplayAct = (typeof REPLAY_ACTS)[number]

const ACTS_FROM: Readonly<Record<ReplayAct, readonly ReplayState[]>> = {
  start: ['planned'],
  pause: ['canary', 'running'],
  resume: ['paused', 'stopped'],
  abort: ['planning', 'planned', 'canary', 'running', 'paused', 'stopped'],
}

export interface ReplayPlan {
  /** The first so many are submitted, and the rest wait until these have ended; 0 = all at once. */
  canary: number
  /** So many of them may fail. */
  canaryFailuresMax: number
  /** null = as fast as it goes. */
  perSecond: number | null
}

/** A replay as far as the next step depends on it. */
export interface ReplayStanding extends ReplayPlan {
  state: ReplayState
  /** The first jobs were judged, or a person decided to go on without them. */
  isCanaryOver: boolean
  submitted: number
  /** Items without a decision yet. */
  waiting: number
  pace: Pace
}

/** Where an act leads, or null: it cannot be done now. A person who resumes a stopped replay overrules its canary. */
export function stateAfter(
  act: ReplayAct,
  { state, canary, isCanaryOver }: Pick<ReplayStanding, 'state' | 'canary' | 'isCanaryOver'>,
): { state: 'canary' | 'running' | 'paused' | 'aborted'; isCanaryOver: boolean } | null {
  if (!ACTS_FROM[act].includes(state)) return null
  if (act === 'pause') return { state: 'paused', isCanaryOver }
  if (act === 'abort') return { state: 'aborted', isCanaryOver }
  const isOver = isCanaryOver || canary === 0 || state === 'stopped'
  return { state: isOver ? 'running' : 'canary', isCanaryOver: isOver }
}

// ---- pace ----------------------------------------------------------------------------------------------------------

/** Letter number n since `anchorMs` (counted from 0) may go at anchorMs + n / perSecond. */
export interface Pace {
  anchorMs: number
  sent: number
}

/** If no worker ran for a time, at most this much of it is made up for. */
const CATCH_UP_MS_MAX = SECOND_MS

const dueAtMs = ({ anchorMs, sent }: Pace, perSecond: number): number =>
  anchorMs + Math.ceil((sent * SECOND_MS) / perSecond)

/** How many may go now, and the pace to count from: a later anchor where time was lost. */
export function allowance(pace: Pace, perSecond: number | null, nowMs: number): { count: number; pace: Pace } {
  if (perSecond === null) return { count: Number.POSITIVE_INFINITY, pace }
  const lateMs = nowMs - dueAtMs(pace, perSecond)
  // The next one is never further away than one step, unless the clock was set back: then the pace begins anew.
  if (lateMs < -SECOND_MS / perSecond - 1) return { count: 1, pace: { anchorMs: nowMs, sent: 0 } }
  if (lateMs < 0) return { count: 0, pace }
  const kept = lateMs <= CATCH_UP_MS_MAX ? pace : afterLoss(perSecond, nowMs)
  // At least the one that is due: a sum of fractions may come out a hair too small.
  const count = Math.floor(((nowMs - kept.anchorMs) * perSecond) / SECOND_MS) + 1 - kept.sent
  return { count: Math.max(1, count), pace: kept }
}

function afterLoss(perSecond: number, nowMs: number): Pace {
  const burst = Math.max(1, Math.floor((perSecond * CATCH_UP_MS_MAX) / SECOND_MS))
  return { anchorMs: nowMs - Math.ceil(((burst - 1) * SECOND_MS) / perSecond), sent: 0 }
}

const PER_UNIT_S: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600 }
const PER_SECOND_MAX = 100_000

/** '5/s', '90/m', '200/h', or a number per second. */
export function perSecondOf(rate: string | number): number {
  const found = /^(\d+(?:\.\d+)?)(?:\/([smh]))?$/.exec(String(rate).replaceAll(' ', ''))
  const perSecond = found === null ? Number.NaN : Number(found[1]) / (PER_UNIT_S[found[2] ?? 's'] as number)
  if (perSecond > 0 && perSecond <= PER_SECOND_MAX) return perSecond
  const most = `more than nothing, and at most ${PER_SECOND_MAX} a second`
  throw new RedressError('OPTION_INVALID', `rate: write '5/s', '90/m', '200/h' or a number per second, ${most}.`)
}

// ---- the next step -------------------------------------------------------------------------------------------------

/** The outcomes of the canary's jobs so far. */
export interface CanaryJobs {
  unfinished: number
  failed: number
  cancelled: number
}

export type ReplayStep =
  /** At most so many more letters may become jobs now. */
  | { kind: 'submit'; count: number; pace: Pace }
  | { kind: 'wait'; untilMs: number }
  | { kind: 'move'; to: 'running' | 'done' | 'stopped'; why: string }
  /** It is not under way. */
  | { kind: 'none' }

const CANARY_LOOK_MS = SECOND_MS

/** The next step of a replay. Decided before letters are prepared, and again in the transaction that submits them. */
export function nextStep(replay: ReplayStanding, canaryJobs: () => CanaryJobs, nowMs: number): ReplayStep {
  const { state, canary, submitted, waiting, perSecond } = replay
  if (state !== 'canary' && state !== 'running') return { kind: 'none' }
  if (waiting === 0) return { kind: 'move', to: 'done', why: 'no letter is left' }
  let most = Number.POSITIVE_INFINITY
  if (state === 'canary') {
    const verdict = canaryVerdict(replay, canaryJobs())
    if (verdict !== null) return verdict
    if (submitted >= canary) return { kind: 'wait', untilMs: nowMs + CANARY_LOOK_MS }
    most = canary - submitted
  }
  const allowed = allowance(replay.pace, perSecond, nowMs)
  if (allowed.count > 0) return { kind: 'submit', count: Math.min(most, allowed.count), pace: allowed.pace }
  return { kind: 'wait', untilMs: dueAtMs(replay.pace, perSecond as number) }
}

/** One failure too many ends it at once; that all is well is known only when all have ended. */
function canaryVerdict(
  { canary, canaryFailuresMax, submitted }: ReplayStanding,
  { unfinished, failed, cancelled }: CanaryJobs,
): Extract<ReplayStep, { kind: 'move' }> | null {
  // A cancelled job proves nothing about the cause, and a person had a reason to cancel it.
  const bad = failed + cancelled
  if (bad > canaryFailuresMax) {
    const parts = [failed > 0 ? `${failed} failed` : '', cancelled > 0 ? `${cancelled} cancelled` : '']
    const allowed = canaryFailuresMax === 0 ? 'none may' : `at most ${canaryFailuresMax} may`
    const why = `of the first ${submitted} jobs, ${parts.filter(Boolean).join(' and ')}; ${allowed}`
    return { kind: 'move', to: 'stopped', why }
  }
  if (submitted < canary || unfinished > 0) return null
  const but = bad === 0 ? '' : `; ${bad} did not complete, and ${canaryFailuresMax} may`
  return { kind: 'move', to: 'running', why: `the first ${submitted} jobs have ended well${but}` }
}

/** Why a dead letter is not replayed. */
export const SKIPS = [
  'already-replayed',
  'purged',
  'not-failed',
  'not-allowed',

  'refused',
  'twin',
] as const
export type SkipCode = (typeof SKIPS)[number]

export interface Skip {
  code: SkipCode
  /** A sentence for a person. */
  why: string
}

/** The facts that decide whether a letter can be replayed now. */
export interface LetterFacts {
  /** Of the job that the letter is about. */
  status: Status
  manualRetry: Policy['manualRetry']['mode']
  replays: number
  replayedAs: string | null
  /** The live job that holds the same dedupe key. */
  twin: { id: string; status: Status } | null
}

/**
 * Judged when a replay is planned and again in the transaction that makes the job: the selection is frozen, the facts
 * are those of the moment. `replaysSeen` is how often the letter had been replayed when a person chose it.
 */
export function obstacleTo(facts: LetterFacts | null, replaysSeen: number, isEdited: boolean): Skip | null {
  if (facts === null) return { code: 'purged', why: 'the letter is gone: it was purged, or its retention is over' }
  const { status, manualRetry, replays, replayedAs, twin } = facts
  if (replays !== replaysSeen) return { code: 'already-replayed', why: `it was replayed already, as job ${replayedAs}` }
  if (status !== 'failed') return { code: 'not-failed', why: `its job is ${status} now` }
  if (manualRetry === 'off') return { code: 'not-allowed', why: `its policy has manualRetry 'off'` }
  // An edited input is other work, and takes no key with it.
  if (twin !== null && !isEdited) {
    return { code: 'twin', why: `job ${twin.id} holds the same dedupe key and is ${twin.status}` }
  }
  return null
}

/**
 * JSON Merge Patch (RFC 7396): members of the patch replace those of the target, null removes one, and anything but an
 * object replaces the whole. Neither argument is changed.
 */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch
  const members = new Map(isObject(target) ? Object.entries(target) : [])
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) members.delete(name)
    else members.set(name, mergePatch(members.get(name), value))
  }
  // Defines, where an assignment would set the prototype: '__proto__' is a name like any other in JSON.
  return Object.fromEntries(members)
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
