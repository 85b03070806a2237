import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { mappingJsonSchema, patternProblem } from '../../src/gateway/mapping-schema.ts'
import { linesOfJson, Mappings, problemText, readMapping } from '../../src/gateway/mappings.ts'
import { typedValue } from '../../src/gateway/record/values.ts'
import { GATEWAY } from './world.ts'

const INVOICE = readFileSync(join(GATEWAY, 'mappings/invoice.json'), 'utf8')

/** What is wrong with the sample once a part of it was replaced, and on which line that part is. */
function problemsWith(part: string, replacement: string): { problems: string[]; line: number } {
  expect(INVOICE.split(part).length).toBe(2)
  const read = readMapping('mine.json', INVOICE.replace(part, replacement))
  return {
    problems: 'problems' in read ? read.problems.map(problemText) : [],
    line: INVOICE.slice(0, INVOICE.indexOf(part)).split('\n').length,
  }
}

describe('a broken mapping', () => {
  const cases: [what: string, part: string, replacement: string, problem: string][] = [
    ['is not JSON', '"version": 1,', '"version": 1', '@next This is not JSON: '],
    ['lacks its name', '"name": "invoice",', '', '@top name: '],
    [
      'has a version that is no number',
      '"version": 1',
      '"version": "1"',
      '@here version: Invalid input: expected number',
    ],
    ['has a word that means nothing', '"dateOrder"', '"dateOder"', '@top A mapping has no dateOder: is it misspelt?'],
    [
      'has a type that there is not',
      '"type": "date", "required"',
      '"type": "day", "required"',
      '@here fields.1.type: ',
    ],
    [
      'has two fields of a name',
      '"element": "dueDate"',
      '"element": "invoiceDate"',
      '@here fields.2.element: The field invoiceDate is defined twice',
    ],
    [
      'names an element that XML could not have',
      '"element": "dueDate"',
      '"element": "due date"',
      '@here fields.2.element: Begin with a letter',
    ],
    [
      'has a pattern that does not compile',
      'VAT ID:? ?(',
      'VAT ID:? ?((',
      '@here fields.4.find.pattern: Invalid regular expression',
    ],
    [
      'has a pattern that can take forever',
      'VAT ID:? ?([A-Z]{2}',
      'VAT ID:? ?([A-Z]+)+([A-Z]{2}',
      '@here fields.4.find.pattern: a repetition inside a repetition',
    ],
    ['looks for nothing', '{ "label": "Due date" }', '{ "labels": "Due date" }', '@here fields.2.find: Give one of'],
    [
      'has a header without its columns',
      '"Price", "Amount"]',
      '"Amount"]',
      '@next rows.columns: There must be as many',
    ],
  ]
  test.each(cases)('a mapping that %s is reported with the line [E7]', (_what, part, replacement, problem) => {
    const { problems, line } = problemsWith(part, replacement)
    // What is missing or misspelt at the top is said of the whole; what a comma was missing after, of the next line.
    const told = { '@top': 1, '@here': line, '@next': line + 1 }[problem.split(' ')[0] ?? '']
    expect(problems).toEqual([expect.stringContaining(`mine.json:${told}: `)])
    expect(problems[0]).toContain(problem.slice(problem.indexOf(' ') + 1))
  })

  test('a broken mapping does not hide the others [E7]', () => {
    const mappings = Mappings.load(undefined)
    expect(mappings.entries.map(({ name }) => name)).toEqual(['text', 'layout', 'invoice'])
    expect(mappings.broken).toEqual([])
  })

  test('the schema for editors is the one that is checked', () => {
    const shipped: unknown = JSON.parse(readFileSync(join(GATEWAY, 'schema/mapping-1.json'), 'utf8'))
    expect(shipped).toEqual(JSON.parse(JSON.stringify(mappingJsonSchema())))
  })
})

describe('lines of JSON', () => {
  test('every value is found on the line on which it is', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
        const text = JSON.stringify(value, null, 2)
        const lineOf = linesOfJson(text)
        const lines = text.split('\n')
        for (const { path, leaf } of leaves(value, [])) {
          expect(lines[lineOf(path) - 1]).toContain(JSON.stringify(leaf))
        }
      }),
      { numRuns: 100 },
    )
  })

  function* leaves(value: unknown, path: (string | number)[]): Generator<{ path: (string | number)[]; leaf: unknown }> {
    if (Array.isArray(value)) for (const [i, inner] of value.entries()) yield* leaves(inner, [...path, i])
    else if (value !== null && typeof value === 'object') {
      for (const [name, inner] of Object.entries(value)) yield* leaves(inner, [...path, name])
    } else yield { path, leaf: value }
  }
})

describe('patterns', () => {
  test.each(['(a+)+', '(a*)*b', '(?:x(y+)z)*', '(a|b+){2,}', '([a-z]+,?)*$'])('refused: %s', (pattern) => {
    expect(patternProblem(pattern)).toContain('repetition')
  })
  test.each(['a+b*', '(a|b)+', '(ab){2,5}', '[(+)*]+', '\\(a+\\)+', '(\\d+)-(\\d+)', '(?:a+)?'])(
    'allowed: %s',
    (pattern) => {
      expect(patternProblem(pattern)).toBeUndefined()
    },
  )
})

describe('values', () => {
  const cases: [type: 'number' | 'date' | 'money', text: string, expected: string | undefined][] = [
    ['number', '1,234.50', '1234.50'],
    ['number', '1.234,50', '1234.50'],
    ['number', "1'234.50", '1234.50'],
    ['number', '1 234 567', '1234567'],
    ['number', '1,234', '1234'],
    ['number', '1.234.567', '1234567'],
    ['number', '0,5', '0.5'],
    ['number', '(12)', '-12'],
    ['number', '12-', '-12'],
    ['number', '-007', '-7'],
    ['number', 'twelve', undefined],
    ['number', '1.2.3.4,5,6', undefined],
    ['date', '2024-02-29', '2024-02-29'],
    ['date', '1.2.2024', '2024-02-01'],
    ['date', '1/2/24', '2024-02-01'],
    ['date', '31 January 2024', '2024-01-31'],
    ['date', '3. März 2024', '2024-03-03'],
    ['date', '14 de febrero de 2024', '2024-02-14'],
    ['date', 'Feb 3, 2024', '2024-02-03'],
    ['date', '30.02.2024', undefined],
    ['date', '3 Smarch 2024', undefined],
    ['money', 'EUR 1.428,00', '1428.00'],
    ['money', '€ 12', '12'],
    ['money', '$1,000', '1000'],
    ['money', 'free', undefined],
  ]
  test.each(cases)('%s %j is %j', (type, text, expected) => {
    expect(typedValue(type, text, 'dmy')?.text).toBe(expected)
  })

  test('which of two numbers is the month is said by the mapping', () => {
    expect(typedValue('date', '1/2/2024', 'mdy')?.text).toBe('2024-01-02')
    expect(typedValue('date', '24/1/2', 'ymd')?.text).toBeUndefined()
    expect(typedValue('date', '24/01/02', 'ymd')?.text).toBe('2024-01-02')
  })

  test('the currency stands beside the amount', () => {
    const currencies = ['EUR 1', '1 CHF', '€1', '£1', '$1', '1'].map(
      (text) => typedValue('money', text, 'dmy')?.currency,
    )
    expect(currencies).toEqual(['EUR', 'CHF', 'EUR', 'GBP', '$', undefined])
  })
})
