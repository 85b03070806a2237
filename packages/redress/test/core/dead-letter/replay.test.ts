import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  allowance,
  type CanaryJobs,
  type LetterFacts,
  nextStep,
  obstacleTo,
  type Pace,
  perSecondOf,
  REPLAY_ACTS,
  REPLAY_STATES,
  type ReplayStanding,
  stateAfter,
} from '../../../src/core/dead-letter/replay.ts'

const NOW_MS = 1_000_000

function standing(parts: Partial<ReplayStanding> = {}): ReplayStanding {
  return {
    ...{ state: 'running', canary: 0, canaryFailuresMax: 0, perSecond: null, isCanaryOver: true },
    ...{ submitted: 0, waiting: 10, pace: { anchorMs: NOW_MS, sent: 0 } },
    ...parts,
  }
}

const step = (parts: Partial<ReplayStanding>, jobs: Partial<CanaryJobs> = {}, nowMs = NOW_MS) =>
  nextStep(standing(parts), () => ({ unfinished: 0, failed: 0, cancelled: 0, ...jobs }), nowMs)

describe('what a person may do to a replay', () => {
  test('is a table', () => {
    const allowed = REPLAY_ACTS.map((act) => [
      act,
      REPLAY_STATES.filter((state) => stateAfter(act, standing({ state })) !== null),
    ])
    expect(Object.fromEntries(allowed)).toEqual({
      start: ['planned'],
      pause: ['canary', 'running'],
      resume: ['paused', 'stopped'],
      abort: ['planning', 'planned', 'canary', 'running', 'paused', 'stopped'],
    })
  })

  test('a replay with a canary begins with it, and goes on with it after a pause', () => {
    const canary = { canary: 3, isCanaryOver: false }
    expect(stateAfter('start', standing({ state: 'planned', ...canary }))?.state).toBe('canary')
    expect(stateAfter('resume', standing({ state: 'paused', ...canary }))?.state).toBe('canary')
    expect(stateAfter('resume', standing({ state: 'paused', canary: 3 }))?.state).toBe('running')
    expect(stateAfter('start', standing({ state: 'planned', isCanaryOver: false }))?.state).toBe('running')
  })

  test('a person who resumes a stopped replay overrules its canary', () => {
    const stopped = standing({ state: 'stopped', canary: 3, isCanaryOver: false })
    expect(stateAfter('resume', stopped)).toEqual({ state: 'running', isCanaryOver: true })
  })
})

describe('how many may go now', () => {
  test('all, when there is no rate', () => {
    expect(step({})).toMatchObject({ kind: 'submit', count: Number.POSITIVE_INFINITY })
  })

  test('the first at once, and each next one at its time', () => {
    const at = (ms: number, sent: number) => step({ perSecond: 4, pace: { anchorMs: NOW_MS, sent } }, {}, NOW_MS + ms)
    expect(at(0, 0)).toMatchObject({ kind: 'submit', count: 1 })
    expect(at(0, 1)).toEqual({ kind: 'wait', untilMs: NOW_MS + 250 })
    expect(at(249, 1)).toEqual({ kind: 'wait', untilMs: NOW_MS + 250 })
    expect(at(250, 1)).toMatchObject({ kind: 'submit', count: 1 })
    expect(at(999, 1)).toMatchObject({ kind: 'submit', count: 3 })
  })

  test('never more than one second allows, however long no worker ran', () => {
    const { count, pace } = allowance({ anchorMs: NOW_MS, sent: 0 }, 10, NOW_MS + 3_600_000)
    expect(count).toBe(10)
    expect(allowance({ ...pace, sent: pace.sent + count }, 10, NOW_MS + 3_600_000).count).toBe(0)
    expect(allowance({ anchorMs: NOW_MS, sent: 0 }, 0.01, NOW_MS + 3_600_000).count).toBe(1)
  })

  test('in any run of any rhythm the rate is kept, and whoever comes when it is due always sends', () => {
    const rhythm = fc.array(fc.integer({ min: 0, max: 3_000 }), { minLength: 1, maxLength: 60 })
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 5_000 }), rhythm, (perThousandSeconds, waits) => {
        const perSecond = perThousandSeconds / 100
        let pace: Pace = { anchorMs: NOW_MS, sent: 0 }
        let nowMs = NOW_MS
        let sent = 0
        for (const waitMs of waits) {
          nowMs += waitMs
          const allowed = allowance(pace, perSecond, nowMs)
          sent += allowed.count
          pace = { ...allowed.pace, sent: allowed.pace.sent + allowed.count }
          expect(sent).toBeLessThanOrEqual(1 + Math.ceil(((nowMs - NOW_MS) * perSecond) / 1_000))
        }
        const then = step({ perSecond, pace }, {}, nowMs)
        if (then.kind !== 'wait') return
        expect(then.untilMs).toBeGreaterThan(nowMs)
        expect(step({ perSecond, pace }, {}, then.untilMs).kind).toBe('submit')
        expect(step({ perSecond, pace }, {}, then.untilMs - 1).kind).toBe('wait')
      }),
    )
  })

  test.each([
    ['5/s', 5],
    ['90/m', 1.5],
    ['36 / h', 0.01],
    ['0.5', 0.5],
    [7, 7],
  ])('the rate %s is %d a second', (rate, perSecond) => {
    expect(perSecondOf(rate)).toBe(perSecond)
  })

  test.each(['', '0/s', '-1', '5/d', 'fast', '1e9', Number.NaN])('%s is no rate', (rate) => {
    expect(() => perSecondOf(rate)).toThrow('5/s')
  })
})

describe('the canary', () => {
  const canary = { state: 'canary', canary: 3, isCanaryOver: false } as const

  test('no more than the canary goes, and then the rest waits for it', () => {
    expect(step(canary)).toMatchObject({ kind: 'submit', count: 3 })
    expect(step({ ...canary, submitted: 2 })).toMatchObject({ kind: 'submit', count: 1 })
    expect(step({ ...canary, submitted: 3 }, { unfinished: 1 })).toEqual({ kind: 'wait', untilMs: NOW_MS + 1_000 })
  })

  test('when all of them have ended well, the rest goes', () => {
    expect(step({ ...canary, submitted: 3 })).toMatchObject({ kind: 'move', to: 'running' })
  })

  test('one failure stops it at once, whatever the others are doing', () => {
    expect(step({ ...canary, submitted: 2 }, { unfinished: 1, failed: 1 })).toEqual({
      ...{ kind: 'move', to: 'stopped', why: 'of the first 2 jobs, 1 failed; none may' },
    })
  })

  test('as many may fail as was said, and a cancelled one counts as failed', () => {
    const three = { ...canary, submitted: 3, canaryFailuresMax: 1 }
    expect(step(three, { failed: 1 })).toMatchObject({ kind: 'move', to: 'running' })
    expect(step(three, { failed: 1, cancelled: 1 })).toMatchObject({ kind: 'move', to: 'stopped' })
  })

  test('with nothing left to protect there is nothing to wait for', () => {
    expect(step({ ...canary, submitted: 2, waiting: 0 }, { unfinished: 2 })).toMatchObject({ to: 'done' })
  })

  test('the jobs are looked at only while it lasts', () => {
    const unread = () => {
      throw new Error('they were looked at')
    }
    expect(nextStep(standing({ submitted: 3 }), unread, NOW_MS).kind).toBe('submit')
  })
})

test('a replay that is not under way does nothing, and one without letters is done', () => {
  for (const state of REPLAY_STATES) {
    const expected = state === 'canary' || state === 'running' ? 'submit' : 'none'
    expect(step({ state, canary: 3 }).kind).toBe(expected)
  }
  expect(step({ waiting: 0 })).toMatchObject({ kind: 'move', to: 'done' })
})

describe('what stands in the way of a replay', () => {
  const fine: LetterFacts = { status: 'failed', manualRetry: 'new-job', replays: 0, replayedAs: null, twin: null }
  const twin = { id: 't', status: 'queued' } as const

  test.each([
    ['purged', null],
    ['already-replayed', { ...fine, replays: 1, replayedAs: 'n' }],
    ['not-failed', { ...fine, status: 'queued' as const }],
    ['not-allowed', { ...fine, manualRetry: 'off' as const }],
    ['twin', { ...fine, twin }],
  ])('%s', (code, facts) => {
    expect(obstacleTo(facts, 0, false)).toMatchObject({ code, why: expect.stringMatching(/^[a-z]/) })
  })

  test('nothing, when the letter is as it was when it was chosen', () => {
    expect(obstacleTo(fine, 0, false)).toBeNull()
    expect(obstacleTo({ ...fine, replays: 2, replayedAs: 'n' }, 2, false)).toBeNull()
  })

  test('no twin, where the input is another one', () => {
    expect(obstacleTo({ ...fine, twin }, 0, true)).toBeNull()
  })
})
