import { expect, test } from 'vitest'
import { RedressError } from '../../../src/core/errors.ts'
import { type CodeSpec, ENGINE_CODES, failureCodes, withEngineCodes } from '../../../src/core/failure/taxonomy.ts'

const row: CodeSpec = { fault: 'dependency', retry: 'transient', message: 'The gateway failed.' }

function problemsOf(table: Record<string, unknown>): readonly string[] {
  try {
    failureCodes(table as Record<string, CodeSpec>)
  } catch (error) {
    expect(error).toBeInstanceOf(RedressError)
    expect((error as RedressError).code).toBe('TAXONOMY_INVALID')
    return (error as RedressError).problems
  }
  return []
}

test('a taxonomy is frozen, rows included, and keeps nothing of the table it was made from', () => {
  const table = { GW_5XX: { ...row } }
  const codes = failureCodes(table)
  table.GW_5XX.message = 'changed afterwards'
  expect(codes.GW_5XX.message).toBe('The gateway failed.')
  expect(Object.isFrozen(codes) && Object.isFrozen(codes.GW_5XX)).toBe(true)
})

test('the codes of a taxonomy are known to the compiler', () => {
  const codes = failureCodes({ GW_5XX: row })
  expect(codes.GW_5XX.fault).toBe('dependency')
  // @ts-expect-error a misspelt code must not compile
  expect(codes.GW_5X).toBeUndefined()
})

test('every mistake in a table is named at once', () => {
  const problems = problemsOf({
    gw_5xx: row,
    FAULT: { ...row, fault: 'nobody' },
    RETRY: { ...row, retry: 'sometimes' },
    EMPTY: { ...row, message: '  ' },
    LINES: { ...row, message: 'one\ntwo' },
    LONG: { ...row, message: 'x'.repeat(201) },
    WAITING: { ...row, waiting: '' },
    HTTP: { ...row, http: 302 },
    TYPO: { ...row, wating: 'soon' },
    NOTHING: null,
  })
  const named = problems.map((problem) => problem.split(':')[0])
  expect(named).toEqual([
    'gw_5xx',
    'FAULT.fault',
    'RETRY.retry',
    'EMPTY.message',
    'LINES.message',
    'LONG.message',
    'WAITING.waiting',
    'HTTP.http',
    'TYPO.wating',
    'NOTHING',
  ])
})

test('every engine code has its own copy for waiting and for good', () => {
  for (const spec of Object.values(ENGINE_CODES)) {
    expect(spec.message).toMatch(/^[A-Z].*\.$/)
    expect(spec.waiting).toMatch(/^[A-Z].*\.$/)
  }
})

test('an author replaces the copy of an engine code and keeps the others', () => {
  const codes = withEngineCodes(failureCodes({ UNKNOWN: { ...row, message: 'Conversion failed.' }, GW_5XX: row }))
  expect(codes.UNKNOWN.message).toBe('Conversion failed.')
  expect(codes.GW_5XX).toEqual(row)
  expect(codes.WORKER_LOST).toBe(ENGINE_CODES.WORKER_LOST)
  expect(Object.isFrozen(codes)).toBe(true)
})
