import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  type CheckedStage,
  checkStage,
  countCode,
  decideStage,
  StageLog,
  type StageOptions,
  type StageSoFar,
  stageInWords,
} from '../../../src/core/failure/stage.ts'
import { exponential, table } from '../../../src/core/policy/backoff.ts'

const CODES = { GONE: {}, SLOW: {} }
const checked = (options: StageOptions = {}): CheckedStage => checkStage('download', options, CODES)

const soFar = (parts: Partial<StageSoFar> = {}): StageSoFar => ({
  stage: checked({ max: 3, backoff: table(['1s', '5s']) }),
  number: 1,
  retry: 'transient',
  retryAfterMs: null,
  wanted: null,
  leftMs: Number.POSITIVE_INFINITY,
  ...parts,
})

describe('the options of a stage', () => {
  test('take the safest default: one try', () => {
    expect(checked()).toEqual({
      name: 'download',
      max: 1,
      backoff: null,
      retryAfterMsMax: 60_000,
      timeoutMs: null,
      isFinal: false,
      exhaustedCode: null,
    })
  })

  test.each<[string, StageOptions, RegExp]>([
    ['no try at all', { max: 0 }, /max must be a whole number from 1/],
    ['half a try', { max: 1.5 }, /max must be/],
    ['a name that is no option', { retries: 3 } as never, /The stage download has no option "retries"/],
    ['another ending', { exhausted: 'stop' as never }, /exhausted must be 'fail' or 'retry', not "stop"/],
    ['a code that the taxonomy does not have', { exhaustedCode: 'LOST' }, /the taxonomy has no code LOST/],
    ['no time', { timeout: 0 }, /a timeout of nothing/],
    ['no time in words', { timeout: '0s' }, /a timeout of nothing/],
    ['a duration without unit', { timeout: 'soon' }, /stage download: timeout: "soon" is not a duration/],
    ['a backoff that is none', { backoff: {} as never }, /stage download: backoff/],
  ])('%s is refused', (_what, options, message) => {
    expect(() => checked(options)).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }))
    expect(() => checked(options)).toThrow(message)
  })

  test.each(['', '1st', 'a b', 'x'.repeat(101), 'a/b', null])('%j is no name', (name) => {
    expect(() => checkStage(name as string, {}, CODES)).toThrow(/is not a name for a stage/)
  })
})

describe('after a try failed', () => {
  test('a transient error is tried again after the wait of its step', () => {
    expect(decideStage(soFar(), 'never', 0)).toEqual({ kind: 'again', delayMs: 1_000 })
    expect(decideStage(soFar({ number: 2 }), 'never', 0)).toEqual({ kind: 'again', delayMs: 5_000 })
  })

  test('the last try is the last', () => {
    expect(decideStage(soFar({ number: 3 }), 'never', 0)).toEqual({ kind: 'give-up', why: 'exhausted' })
  })

  test.each(['never', 'dead-letter'] as const)('an error of class %s ends it at once', (retry) => {
    expect(decideStage(soFar({ retry }), 'transient', 0)).toEqual({ kind: 'give-up', why: 'final' })
  })

  test('of an unknown error, the policy decides', () => {
    const unknown = soFar({ retry: 'unknown' })
    expect(decideStage(unknown, 'transient', 0).kind).toBe('again')
    expect(decideStage(unknown, 'never', 0)).toEqual({ kind: 'give-up', why: 'final' })
    expect(decideStage(unknown, 'dead-letter', 0)).toEqual({ kind: 'give-up', why: 'final' })
  })

  test('retryIf decides instead of the class, but not beyond the last try', () => {
    expect(decideStage(soFar({ retry: 'never', wanted: true }), 'never', 0).kind).toBe('again')
    expect(decideStage(soFar({ wanted: false }), 'never', 0)).toEqual({ kind: 'give-up', why: 'declined' })
    expect(decideStage(soFar({ number: 3, wanted: true }), 'never', 0)).toEqual({ kind: 'give-up', why: 'exhausted' })
  })

  test('the longer of the backoff and what the other side asks for counts, up to the bound', () => {
    expect(decideStage(soFar({ retryAfterMs: 20_000 }), 'never', 0)).toEqual({ kind: 'again', delayMs: 20_000 })
    expect(decideStage(soFar({ retryAfterMs: 1e12 }), 'never', 0)).toEqual({ kind: 'again', delayMs: 60_000 })
    const stage = checked({ max: 2, retryAfterMax: '2s' })
    expect(decideStage(soFar({ stage, retryAfterMs: 20_000 }), 'never', 0)).toEqual({ kind: 'again', delayMs: 2_000 })
    const patient = checked({ max: 3, backoff: table(['5s']) })
    for (const retryAfterMs of [0, -1, 4_999]) {
      const decision = decideStage(soFar({ stage: patient, retryAfterMs }), 'never', 0)
      expect(decision, String(retryAfterMs)).toEqual({ kind: 'again', delayMs: 5_000 })
    }
  })

  test('a wait that the attempt has no time for is not begun', () => {
    expect(decideStage(soFar({ leftMs: 1_000 }), 'never', 0)).toEqual({ kind: 'give-up', why: 'no-time' })
    expect(decideStage(soFar({ leftMs: 1_001 }), 'never', 0).kind).toBe('again')
  })

  test('it ends, whatever happens: no more tries than max, and no wait beyond the time left', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 20 }),
        fc.array(
          fc.record({
            retry: fc.constantFrom('never', 'transient', 'dead-letter', 'unknown' as const),
            retryAfterMs: fc.option(fc.double({ min: 0 })),
            wanted: fc.option(fc.boolean()),
            leftMs: fc.integer({ min: 0, max: 100_000 }),
            chance: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
          }),
          { minLength: 21, maxLength: 21 },
        ),
        (max, failures) => {
          const stage = checked({ max, backoff: exponential('1s', { jitter: '50%' }) })
          let number = 0
          for (const { chance, retry, ...failure } of failures) {
            number++
            const found = decideStage(
              { stage, number, retry: retry as StageSoFar['retry'], ...failure },
              'transient',
              chance,
            )
            if (found.kind === 'give-up') break
            expect(found.delayMs).toBeGreaterThanOrEqual(0)
            expect(found.delayMs).toBeLessThan(failure.leftMs)
          }
          expect(number).toBeLessThanOrEqual(max)
        },
      ),
    )
  })
})

describe('the record of the stages', () => {
  test('says nothing where nothing was tried again', () => {
    const log = new StageLog()
    log.begun(checked({ max: 3 })).tries++
    expect(log.summary()).toBeNull()
  })

  test('is one line per name, and bounded', () => {
    const log = new StageLog()
    for (let i = 0; i < 100; i++) {
      const line = log.begun(checkStage(`part-${i}`, { max: 2 }, CODES))
      line.tries += 2
      line.succeeded++
      for (let code = 0; code < 30; code++) countCode(line, `CODE_${code}`)
    }
    const summary = log.summary() ?? []
    expect(summary).toHaveLength(21)
    expect(summary.at(-1)).toMatchObject({ name: 'others', runs: 80, tries: 160 })
    for (const { codes } of summary) expect(Object.keys(codes).length).toBeLessThanOrEqual(11)
    expect(summary[0]?.codes).toMatchObject({ CODE_0: 1, others: 20 })
    expect(JSON.stringify(summary).length).toBeLessThan(10_000)
  })

  test('a code that is called like a property of every object is counted like any other', () => {
    const line = { name: 'x', runs: 1, tries: 2, max: 2, succeeded: 0, failed: 1, codes: {} }
    countCode(line, 'constructor')
    countCode(line, 'constructor')
    expect(line.codes).toEqual({ constructor: 2 })
  })

  test('reads as a sentence', () => {
    const one = { name: 'download', runs: 1, tries: 3, max: 3, succeeded: 0, failed: 1, codes: { SLOW: 2, GONE: 1 } }
    expect(stageInWords(one)).toBe('download: 3 tries of 3, gave up (SLOW 2, GONE 1)')
    expect(stageInWords({ ...one, succeeded: 1, failed: 0, tries: 2, codes: { SLOW: 1 } })).toBe(
      'download: 2 tries of 3, succeeded (SLOW 1)',
    )
    expect(stageInWords({ ...one, tries: 1, max: 1, codes: { GONE: 1 } })).toBe(
      'download: 1 try of 1, gave up (GONE 1)',
    )
    expect(stageInWords({ ...one, runs: 40, tries: 43, succeeded: 38, failed: 2 })).toBe(
      'download: 43 tries in 40 runs, 2 gave up (SLOW 2, GONE 1)',
    )
    expect(stageInWords({ ...one, tries: 1, failed: 0, codes: { SLOW: 1 } })).toBe(
      'download: 1 try of 3, cut short (SLOW 1)',
    )
  })
})
