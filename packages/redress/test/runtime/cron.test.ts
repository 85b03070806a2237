import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { RedressError } from '../../src/core/errors.ts'
import { cronTicks } from '../../src/runtime/cron.ts'

/** The ticks after a moment, as the zone's clocks show them and in UTC. */
function ticks(cron: string, zone: string, after: string, count: number): string[] {
  const found: string[] = []
  let ms = Date.parse(after)
  for (let i = 0; i < count; i++) {
    const next = cronTicks(cron, zone).nextMs(ms)
    if (next === null) break
    ms = next
    found.push(new Date(ms).toISOString().replace(':00.000Z', 'Z'))
  }
  return found
}

describe('a time that the clocks leave out comes once, at the first moment after the gap', () => {
  test('in Berlin, where 02:30 becomes 03:00', () => {
    expect(ticks('30 2 * * *', 'Europe/Berlin', '2026-03-28T12:00Z', 2)).toEqual([
      '2026-03-29T01:00Z',
      '2026-03-30T00:30Z',
    ])
  })

  test('in New York', () => {
    expect(ticks('30 2 * * *', 'America/New_York', '2026-03-07T12:00Z', 2)).toEqual([
      '2026-03-08T07:00Z',
      '2026-03-09T06:30Z',
    ])
  })

  test('on Lord Howe Island, where the gap is half an hour', () => {
    expect(ticks('15 2 * * *', 'Australia/Lord_Howe', '2026-10-03T00:00Z', 2)).toEqual([
      '2026-10-03T15:30Z',
      '2026-10-04T15:15Z',
    ])
  })

  test('in Beirut, where it is midnight itself', () => {
    expect(ticks('0 0 * * *', 'Asia/Beirut', '2026-03-28T12:00Z', 2)).toEqual([
      '2026-03-28T22:00Z',
      '2026-03-29T21:00Z',
    ])
  })

  test('in Samoa, where it was a whole day', () => {
    expect(ticks('0 12 * * *', 'Pacific/Apia', '2011-12-29T00:00Z', 3)).toEqual([
      '2011-12-29T22:00Z',
      '2011-12-30T10:00Z',
      '2011-12-30T22:00Z',
    ])
  })

  test('and several in one gap are one', () => {
    expect(ticks('*/15 2,3 * * *', 'Europe/Berlin', '2026-03-28T12:00Z', 5)).toEqual([
      '2026-03-29T01:00Z',
      '2026-03-29T01:15Z',
      '2026-03-29T01:30Z',
      '2026-03-29T01:45Z',
      '2026-03-30T00:00Z',
    ])
  })
})

describe('a time that the clocks repeat comes once, at its first pass', () => {
  test('in Berlin', () => {
    expect(ticks('0,30 2 * * *', 'Europe/Berlin', '2026-10-24T12:00Z', 3)).toEqual([
      '2026-10-25T00:00Z',
      '2026-10-25T00:30Z',
      '2026-10-26T01:00Z',
    ])
  })

  test('in New York', () => {
    expect(ticks('30 1 * * *', 'America/New_York', '2026-10-31T12:00Z', 2)).toEqual([
      '2026-11-01T05:30Z',
      '2026-11-02T06:30Z',
    ])
  })

  test('on Lord Howe Island', () => {
    expect(ticks('45 1 * * *', 'Australia/Lord_Howe', '2026-04-04T00:00Z', 2)).toEqual([
      '2026-04-04T14:45Z',
      '2026-04-05T15:15Z',
    ])
  })

  test('also when one looks during the second pass', () => {
    expect(ticks('30 2 * * *', 'Europe/Berlin', '2026-10-25T01:10Z', 1)).toEqual(['2026-10-26T01:30Z'])
    expect(cronTicks('30 2 * * *', 'Europe/Berlin').newestMs(Date.parse('2026-10-25T01:10Z'), 1)).toEqual([
      Date.parse('2026-10-25T00:30Z'),
    ])
  })
})

describe('what comes every hour goes by elapsed time', () => {
  test.each([
    ['Europe/Berlin', '2026-03-28T23:30Z'],
    ['Europe/Berlin', '2026-10-24T22:30Z'],
    ['America/New_York', '2026-03-08T04:30Z'],
    ['America/New_York', '2026-11-01T03:30Z'],
  ])('in %s after %s', (zone, after) => {
    const found = ticks('0 * * * *', zone, after, 6).map((time) => Date.parse(time))
    expect(found.slice(1).map((ms, i) => ms - (found[i] as number))).toEqual(Array(5).fill(3_600_000))
  })

  test('on Lord Howe Island both passes of the repeated half hour count', () => {
    expect(ticks('45 * * * *', 'Australia/Lord_Howe', '2026-04-04T14:00Z', 3)).toEqual([
      '2026-04-04T14:45Z',
      '2026-04-04T15:15Z',
      '2026-04-04T16:15Z',
    ])
  })
})

test('zones are not a matter of whole hours', () => {
  expect(ticks('0 9 * * *', 'Asia/Kathmandu', '2026-03-27T12:00Z', 1)).toEqual(['2026-03-28T03:15Z'])
})

test('seconds, names and nicknames are understood', () => {
  expect(ticks('30 0 3 * * *', 'UTC', '2026-01-01T00:00Z', 1)).toEqual(['2026-01-01T03:00:30.000Z'])
  expect(ticks('0 3 * JAN MON-FRI', 'UTC', '2026-01-02T12:00Z', 1)).toEqual(['2026-01-05T03:00Z'])
  expect(ticks('@daily', 'Europe/Berlin', '2026-01-01T00:00Z', 1)).toEqual(['2026-01-01T23:00Z'])
  expect(ticks('@hourly', 'Europe/Berlin', '2026-10-25T00:00Z', 2)).toEqual(['2026-10-25T01:00Z', '2026-10-25T02:00Z'])
})

test('an expression that never matches has no next tick', () => {
  expect(cronTicks('0 0 31 2 *', 'UTC').nextMs(0)).toBeNull()
})

describe('looking back finds what looking ahead found', () => {
  const ZONES = [
    'Europe/Berlin',
    'America/New_York',
    'Australia/Lord_Howe',
    'UTC',
    'Asia/Kathmandu',
    'Africa/Casablanca',
  ]
  const CRONS = ['30 2 * * *', '*/20 1-3 * * *', '0 * * * *', '*/25 * * * *', '15 1,2,14 * * 0', '59 23 L * *']
  const CHANGES = ['2026-03-29T01:00Z', '2026-10-25T01:00Z', '2026-03-08T07:00Z', '2026-11-01T06:00Z'].concat([
    '2026-10-03T15:30Z',
    '2026-04-04T15:00Z',
  ])

  test('around every change of the clocks', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...ZONES),
        fc.constantFrom(...CRONS),
        fc.constantFrom(...CHANGES),
        fc.integer({ min: -50, max: 50 }),
        (zone, cron, change, quarters) => {
          const ticking = cronTicks(cron, zone)
          const fromMs = Date.parse(change) + quarters * 900_000
          const ahead: number[] = []
          for (let ms: number | null = fromMs; ahead.length < 8; ) {
            ms = ticking.nextMs(ms)
            if (ms === null) break
            ahead.push(ms)
          }
          expect(ahead).toEqual([...new Set(ahead)].sort((a, b) => a - b))
          expect(ahead[0]).toBeGreaterThan(fromMs)
          expect(ticking.newestMs(ahead.at(-1) as number, ahead.length)).toEqual(ahead)
        },
      ),
      { numRuns: 400 },
    )
  })
})

describe('what cannot be read is refused with the field and an example', () => {
  const refusal = (cron: unknown, zone: unknown): RedressError => {
    try {
      cronTicks(cron as string, zone as string)
    } catch (error) {
      return error as RedressError
    }
    throw new Error(`${cron} in ${zone} was taken`)
  }

  test.each([
    ['61 * * * *', 'cron: "61 * * * *" cannot be read: Invalid value for minute: 61.'],
    ['0 25 * * *', 'Invalid value for hour: 25'],
    ['* * * *', 'it has 4 fields'],
    ['', 'it is empty'],
    ['2026-01-01T00:00:00', 'it has one field'],
    ['0 0 0 1 1 * 2027', 'it has 7 fields'],
    ['@reboot', 'it has one field'],
    ['*/0 * * * *', 'illegal stepping'],
    [null, 'it is empty'],
  ])('%s', (cron, problem) => {
    const error = refusal(cron, 'UTC')
    expect(error).toBeInstanceOf(RedressError)
    expect(error.code).toBe('SCHEDULE_INVALID')
    expect(error.message).toContain(problem)
    expect(error.action).toContain("'0 3 * * *'")
  })

  test.each(['Mars/Base', '', 'Local', null, 'CET+99'])('the zone %s', (zone) => {
    const error = refusal('0 3 * * *', zone)
    expect(error.code).toBe('SCHEDULE_INVALID')
    expect(error.message).toBe(`timezone: ${JSON.stringify(zone)} is not a time zone.`)
    expect(error.action).toContain('Europe/Berlin')
  })
})
