import { expect, test } from 'vitest'
import type { Taxonomy } from '../../../src/core/failure/taxonomy.ts'
import { renderTimeline, simulate } from '../../../src/core/policy/simulate.ts'
import { pdfXml, proxx, watermark } from './policies.ts'

const codes: Taxonomy = {
  GW_5XX: { fault: 'dependency', retry: 'transient', message: 'Converter service kept failing.' },
  GW_4XX: { fault: 'caller', retry: 'never', message: 'Couldn’t convert this file.' },
}

test('a simulated job with four failures waits 1, 5 and 15 minutes and ends failed [W49]', () => {
  const steps = simulate(watermark, codes, ['GW_5XX', 'GW_5XX', 'GW_5XX', 'GW_5XX'], { chance: 0 })
  expect(steps.map((step) => step.atMs)).toEqual([0, 60_000, 360_000, 1_260_000])
  expect(steps.map((step) => step.status)).toEqual(['queued', 'queued', 'queued', 'failed'])
})

test('a timeline says when, what and why, and how it ends', () => {
  const outcomes = ['GW_5XX', 'crash', 'ok', 'GW_5XX']
  expect(renderTimeline(simulate(pdfXml, codes, outcomes, { chance: 0.5 }), outcomes)).toBe(
    [
      'at      attempt  outcome  then      because',
      '0 ms    1        GW_5XX   queued    GW_5XX is transient; failure 1 of 3; next attempt in 7.5 s',
      '7.5 s   2        crash    queued    its worker is lost, which counts as failure 2 of 3; taken back 1 of 5 times; ' +
        'next attempt at once (noticed when the lease ends, 30 s later)',
      '37.5 s  3        ok       complete',
      '',
      'Ends complete after 3 attempts.',
      'Not reached: GW_5XX.',
      '',
    ].join('\n'),
  )
})

test('an outcome that no taxonomy names is taken as transient, and the timeline says so', () => {
  const steps = simulate(watermark, codes, ['SOMETHING', 'GW_4XX'], { chance: 0 })
  expect(steps.map((step) => [step.status, step.note])).toEqual([
    ['queued', 'SOMETHING is in no taxonomy here: taken as transient'],
    ['failed', null],
  ])
})

test('an unclassified throw is simulated as the policy takes it', () => {
  expect(simulate(watermark, codes, ['unknown'], { chance: 0 })[0]?.status).toBe('queued')
  expect(simulate(proxx, codes, ['unknown'], { chance: 0 })[0]?.status).toBe('failed')
})

test('a simulated crash under a reporting policy leaves the job as it is [P55]', () => {
  const steps = simulate(proxx, codes, ['crash', 'ok'], { chance: 0 })
  expect(steps.map((step) => step.status)).toEqual(['processing'])
  expect(renderTimeline(steps, ['crash', 'ok'])).toContain('Stays processing until a person decides.\nNot reached: ok.')
})

test('a timeline that runs out of outcomes says when the next attempt would begin', () => {
  const outcomes = ['GW_5XX']
  const text = renderTimeline(simulate(watermark, codes, outcomes, { chance: 0 }), outcomes)
  expect(text).toContain('Still queued: attempt 2 would begin at 1 m.')
})
