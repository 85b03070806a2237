import { expect, test } from 'vitest'
import { oneLine, printable } from '../../../src/core/text/printable.ts'

test.each([
  ['colours are left out', '\u001b[31mred\u001b[0m', 'red'],
  ['what would move the cursor is marked', 'a\u001b]0;title\u0007b', 'a�]0;title�b'],
  ['what would overwrite the line is marked', 'safe\rrm -rf', 'safe�rm -rf'],
  ['writing cannot be turned around', 'abc\u202ecba', 'abc�cba'],
  ['lines are kept', 'one\r\ntwo\nthree', 'one\ntwo\nthree'],
  ['tabs are spaces', 'a\tb', 'a  b'],
])('stored text gives no orders to a terminal: %s', (_, text, shown) => {
  expect(printable(text)).toBe(shown)
})

test('one line is one line', () => {
  expect(oneLine('  a\n\n b\tc ')).toBe('a b c')
})
