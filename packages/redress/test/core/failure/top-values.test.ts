import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  type CountedValue,
  countValue,
  countValues,
  FIELDS_MAX,
  NO_VALUES,
  type TopValues,
  VALUES_MAX,
} from '../../../src/core/failure/group.ts'

const countAll = (values: readonly string[]): CountedValue[] =>
  values.reduce<CountedValue[]>((counted, value) => countValue(counted, value), [])

const trueCounts = (values: readonly string[]): Map<string, number> => {
  const counts = new Map<string, number>()
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1)
  return counts
}

/** Some values often, most of them seldom, in any order. */
const stream = fc.array(
  fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom('a', 'b', 'c') },
    { weight: 2, arbitrary: fc.integer({ min: 0, max: 60 }).map(String) },
  ),
  { maxLength: 400 },
)

describe('counting values in bounded room', () => {
  test('a count is never too low, and too high by no more than it says', () => {
    fc.assert(
      fc.property(stream, (values) => {
        const truth = trueCounts(values)
        for (const { value, count, over } of countAll(values)) {
          const real = truth.get(value) ?? 0
          expect(count).toBeGreaterThanOrEqual(real)
          expect(count - over).toBeLessThanOrEqual(real)
        }
      }),
    )
  })

  test('the counts add up to all that was seen, and there are never more than so many', () => {
    fc.assert(
      fc.property(stream, (values) => {
        const counted = countAll(values)
        expect(counted.length).toBeLessThanOrEqual(VALUES_MAX)
        expect(counted.reduce((sum, { count }) => sum + count, 0)).toBe(values.length)
      }),
    )
  })

  test('a value that makes up more than a tenth of all is there', () => {
    fc.assert(
      fc.property(stream, (values) => {
        const kept = new Set(countAll(values).map(({ value }) => value))
        for (const [value, count] of trueCounts(values)) {
          if (count > values.length / VALUES_MAX) expect(kept).toContain(value)
        }
      }),
    )
  })

  test('the most frequent comes first, and few values are counted exactly', () => {
    expect(countAll(['a', 'b', 'b', 'c', 'b', 'c'])).toEqual([
      { value: 'b', count: 3, over: 0 },
      { value: 'c', count: 2, over: 0 },
      { value: 'a', count: 1, over: 0 },
    ])
  })
})

describe('the values of contexts', () => {
  const seen = (...contexts: Record<string, unknown>[]): TopValues => contexts.reduce(countValues, NO_VALUES)

  test('plain values are counted by field; what is nested, empty or prose is not', () => {
    const counted = seen(
      { httpStatus: 502, host: 'gw', isLast: true, nested: { a: 1 }, list: [1], none: null, stderrTail: 'a\nb' },
      { httpStatus: 502, host: 'other' },
    )
    expect(Object.keys(counted)).toEqual(['httpStatus', 'host', 'isLast'])
    expect(counted.httpStatus).toEqual([{ value: '502', count: 2, over: 0 }])
    expect(counted.host).toHaveLength(2)
  })

  test('a long value is shortened, and on one line', () => {
    const [counted] = seen({ text: `one\n two ${'x'.repeat(1_000)}` }).text ?? []
    expect(counted?.value).toMatch(/^one two x+…$/)
    expect(counted?.value).toHaveLength(80)
  })

  test('half a character at the cut is counted as one value, also after it came back from a database', () => {
    const text = `${'x'.repeat(78)}🧀🧀`
    const stored = JSON.parse(Buffer.from(JSON.stringify(seen({ text }))).toString('utf8'))
    expect(countValues(stored, { text }).text).toEqual([expect.objectContaining({ count: 2 })])
  })

  test('only the first fields are counted, whatever comes later', () => {
    const many = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`field${i}`, i]))
    const counted = seen(many, { late: 1 }, many)
    expect(Object.keys(counted)).toEqual(Array.from({ length: FIELDS_MAX }, (_, i) => `field${i}`))
    expect(counted.field0?.[0]?.count).toBe(2)
  })

  test('a field may have any name', () => {
    const hostile = JSON.parse('{"__proto__": "a", "constructor": "b"}') as Record<string, unknown>
    const counted = JSON.parse(JSON.stringify(seen(hostile, hostile))) as TopValues
    expect(Object.entries(counted).map(([name, [first]]) => [name, first?.count])).toEqual([
      ['__proto__', 2],
      ['constructor', 2],
    ])
  })

  test('what is given is not changed', () => {
    const before = seen({ a: 1 })
    const copy = structuredClone(before)
    countValues(before, { a: 1, b: 2 })
    expect(before).toEqual(copy)
  })
})
