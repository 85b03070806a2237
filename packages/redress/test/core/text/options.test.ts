import { expect, test } from 'vitest'
import { refuseUnknownOptions } from '../../../src/core/text/options.ts'

const KNOWN = ['store', 'clock', 'log']

test('a misspelt option is refused with the nearest name', () => {
  expect(() => refuseUnknownOptions('redress()', { stroe: 1 }, KNOWN)).toThrow(
    expect.objectContaining({
      code: 'OPTION_INVALID',
      message: 'redress() has no option "stroe".',
      action: 'Did you mean "store"?',
    }),
  )
})

test('an option that resembles no known one is refused with the list of options', () => {
  expect(() => refuseUnknownOptions('redress()', { banana: 1 }, KNOWN)).toThrow(
    expect.objectContaining({ action: 'Use one of: store, clock, log.' }),
  )
})

test.each([
  ['a text', 'a string'],
  [null, 'null'],
  [[1], 'a list'],
])('options that are no object are refused: %j', (given, kind) => {
  expect(() => refuseUnknownOptions('submit()', given, KNOWN)).toThrow(
    `submit() takes its options as an object; got ${kind}.`,
  )
})

test('known options and left out options are accepted', () => {
  refuseUnknownOptions('redress()', { store: undefined, clock: 1 }, KNOWN)
  refuseUnknownOptions('redress()', undefined, KNOWN)
})
