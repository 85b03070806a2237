import fc from 'fast-check'
import { expect, test } from 'vitest'
import { mergePatch } from '../../../src/core/dead-letter/replay.ts'

/** Appendix A of RFC 7396. */
const EXAMPLES: readonly [target: string, patch: string, result: string][] = [
  ['{"a":"b"}', '{"a":"c"}', '{"a":"c"}'],
  ['{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'],
  ['{"a":"b"}', '{"a":null}', '{}'],
  ['{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'],
  ['{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'],
  ['{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'],
  ['{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'],
  ['{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'],
  ['["a","b"]', '["c","d"]', '["c","d"]'],
  ['{"a":"b"}', '["c"]', '["c"]'],
  ['{"a":"foo"}', 'null', 'null'],
  ['{"a":"foo"}', '"bar"', '"bar"'],
  ['{"e":null}', '{"a":1}', '{"e":null,"a":1}'],
  ['[1,2]', '{"a":"b","c":null}', '{"a":"b"}'],
  ['{}', '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'],
]

test.each(EXAMPLES)('%s with %s is %s', (target, patch, result) => {
  expect(mergePatch(JSON.parse(target), JSON.parse(patch))).toEqual(JSON.parse(result))
})

test('an empty patch changes nothing of an object, and a patch applied twice is the patch applied once', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.jsonValue(), (target, patch) => {
      expect(mergePatch(target, {})).toEqual(target)
      const once = mergePatch(target, patch)
      expect(mergePatch(once, patch)).toEqual(once)
    }),
  )
})

test('neither the target nor the patch is changed', () => {
  const target = Object.freeze({ a: Object.freeze({ b: 1 }) })
  const patch = Object.freeze({ a: Object.freeze({ b: null, c: 2 }) })
  expect(mergePatch(target, patch)).toEqual({ a: { c: 2 } })
})

test('a member named __proto__ is data, and reaches no prototype', () => {
  const patched = mergePatch({}, JSON.parse('{"__proto__":{"isAdmin":true}}')) as Record<string, unknown>
  expect(Object.hasOwn(patched, '__proto__')).toBe(true)
  expect(patched.isAdmin).toBeUndefined()
  expect(({} as Record<string, unknown>).isAdmin).toBeUndefined()
})
