import { describe, expect, test } from 'vitest'
import { type DateInValue, dateNotReadBack, packInput, packOutput } from '../../../src/core/text/json-value.ts'

const MAX = 1_000
const pack = (value: unknown) => packInput('The input of a', value, MAX)

class Point {
  x = 1
}
class Hidden {
  #x = 1
  get x() {
    return this.#x
  }
}
const circular: { list: unknown[] } = { list: [] }
circular.list.push({ back: circular })

/** What JSON would change, and the words for it. */
const CHANGED: [value: unknown, problem: string][] = [
  [undefined, 'it is undefined'],
  [() => 1, 'it is a function'],
  [Symbol('a'), 'it is a symbol'],
  [1n, 'it is a BigInt'],
  [Number.NaN, 'it is NaN'],
  [{ pages: [{}, {}, {}, { size: Number.NaN }] }, 'pages[3].size is NaN'],
  [{ a: { b: Number.NEGATIVE_INFINITY } }, 'a.b is -Infinity'],
  [[1, undefined], '[1] is undefined'],
  // biome-ignore lint/suspicious/noSparseArray: this is what it is about
  [{ list: [1, , 3] }, 'list[1] is a hole in a sparse array'],
  [{ f() {} }, 'f is a function'],
  [{ 'a b': { c: Symbol.iterator } }, '["a b"].c is a symbol'],
  [{ [Symbol('secret')]: 1 }, 'it has the symbol Symbol(secret) as a key'],
  [{ m: new Map([[1, 2]]) }, 'm is a Map'],
  [{ s: new Set([1]) }, 's is a Set'],
  [{ at: new Date(0) }, 'at is a Date'],
  [{ at: new Date('soon') }, 'at is an invalid Date'],
  [{ bytes: Buffer.from('ab') }, 'bytes has bytes'],
  [{ bytes: new Float64Array(2) }, 'bytes has bytes'],
  [{ bytes: new ArrayBuffer(2) }, 'bytes has bytes'],
  [{ point: new Point() }, 'point is an instance of Point'],
  [{ e: new Error('x') }, 'e is an Error'],
  [{ r: /a/ }, 'r is an instance of RegExp'],
  [{ p: Promise.resolve(1) }, 'p is an instance of Promise'],
  [{ n: Object(1) }, 'n is an instance of Number'],
  [{ j: { toJSON: () => undefined } }, 'j has a toJSON that gives undefined'],
  [{ j: { toJSON: () => new Map() } }, 'j is a Map'],
  [{ j: { toJSON: () => ({ k: Number.NaN }) } }, 'j.k is NaN'],
  [
    {
      j: {
        toJSON: () => {
          throw new Error('no')
        },
      },
    },
    'j cannot be read: no',
  ],
  [circular, 'list[0].back is circular: it contains itself'],
]

describe('an input', () => {
  test.each(CHANGED)('%o is refused with the path of what JSON would change', (value, problem) => {
    expect(() => pack(value)).toThrow(
      expect.objectContaining({
        code: 'PAYLOAD_NOT_JSON',
        message: `The input of a cannot be kept as JSON: ${problem}.`,
      }),
    )
  })

  test.each<[unknown, string]>([
    [null, 'null'],
    ['text', '"text"'],
    [-0, '0'],
    [{ a: undefined, b: 1 }, '{"b":1}'],
    [Object.assign(Object.create(null), { a: 1 }), '{"a":1}'],
    [{ url: new URL('http://a.org/') }, '{"url":"http://a.org/"}'],
    [{ j: { toJSON: () => ({ toJSON: 'kept' }) } }, '{"j":{"toJSON":"kept"}}'],
    [{ a: [[], {}], b: { c: [null] } }, '{"a":[[],{}],"b":{"c":[null]}}'],
  ])('%o is kept as JSON', (value, text) => {
    expect(pack(value)).toBe(text)
  })

  test('one with a getter that throws is refused with its path', () => {
    const value = Object.defineProperty({}, 'x', {
      enumerable: true,
      get: () => {
        throw new Error('gone')
      },
    })
    expect(() => pack({ g: [value] })).toThrow('g[0] cannot be read: gone')
  })

  test('an object that appears twice, but not within itself, is kept', () => {
    const shared = { a: 1 }
    expect(pack({ one: shared, two: [shared, shared] })).toBe('{"one":{"a":1},"two":[{"a":1},{"a":1}]}')
  })

  test('a cycle below many levels is found, and so is a change there', () => {
    const deep = (bottom: unknown, levels: number) => {
      let value = bottom
      for (let i = 0; i < levels; i++) value = { a: value }
      return value
    }
    const cycle: Record<string, unknown> = {}
    cycle.again = cycle
    expect(() => pack(deep(cycle, 300))).toThrow(/\.a\.again is circular: it contains itself/)
    expect(() => pack(deep(Number.NaN, 300))).toThrow(/(a\.){299}a is NaN/)
    expect(pack(deep(1, 90))).toContain('"a":1')
    expect(() => pack(deep(1, 100_000))).toThrow('it is nested too deeply')
  })

  test('one that is too large says its size, the limit and the largest part', () => {
    expect(() => pack({ id: 1, doc: { pages: ['é'.repeat(600)] } })).toThrow(
      expect.objectContaining({
        code: 'PAYLOAD_TOO_LARGE',
        message: 'The input of a has 1229 bytes as JSON; at most 1000 are kept; most of them are in doc.pages[0].',
      }),
    )
    expect(pack('a'.repeat(998))).toHaveLength(1000)
    expect(() => pack('a'.repeat(999))).toThrow('has 1001 bytes as JSON; at most 1000 are kept.')
  })

  test('its Dates are listed where they may be read back, and compared at their places', () => {
    const dates: DateInValue[] = []
    const value = { from: new Date(5), list: [{ at: new Date(7) }] }
    packInput('The input of a', value, MAX, dates)
    expect(dates).toEqual([
      { path: ['from'], atMs: 5 },
      { path: ['list', 0, 'at'], atMs: 7 },
    ])
    expect(dateNotReadBack(dates, value)).toBeNull()
    expect(dateNotReadBack(dates, { ...value, list: [{ at: new Date(8) }] })).toBe(dates[1])
    expect(dateNotReadBack(dates, { from: new Date(5).toISOString(), list: null })).toBe(dates[0])
  })
})

describe('a result', () => {
  test.each<[unknown, string]>([
    [{ at: new Date(0) }, '{"at":"1970-01-01T00:00:00.000Z"}'],
    [{ point: new Point() }, '{"point":{"x":1}}'],
  ])('%o is kept, because JSON keeps its data', (value, text) => {
    expect(packOutput(value, MAX)).toEqual({ text })
  })

  test.each<[unknown, string]>([
    [{ a: [Number.NaN] }, 'a[0] is NaN'],
    [{ m: new Map() }, 'm is a Map'],
    [{ h: new Hidden() }, 'h is an instance of Hidden'],
    [{ e: new Error('x') }, 'e is an Error'],
    [{ at: new Date('soon') }, 'at is an invalid Date'],
    [circular, 'list[0].back is circular: it contains itself'],
  ])('%o is refused with the path of what JSON would lose', (value, problem) => {
    expect(packOutput(value, MAX)).toEqual({ problem: expect.stringContaining(`is not JSON: ${problem}. Use `) })
  })
})
