import { describe, expect, test } from 'vitest'
import { CATALOG, type OperationName } from '../../src/operations/catalog.ts'
import { OPERATIONS } from '../../src/operations/table.ts'

const names = Object.keys(CATALOG) as OperationName[]
const fieldsOf = (name: OperationName) => Object.keys(OPERATIONS[name].input.shape)

test('every entry of the catalogue has an operation', () => {
  for (const name of names) expect(OPERATIONS[name]).toMatchObject({ name, ...CATALOG[name] })
  expect(Object.keys(OPERATIONS).sort()).toEqual([...names].sort())
})

test.each(['cli', 'http'] as const)('no two operations have the same %s form', (door) => {
  const forms = names.map((name) => CATALOG[name][door].replace(/[<[:]\w+[>\]]?/g, '_'))
  expect(new Set(forms).size).toBe(names.length)
})

describe.each(names)('%s', (name) => {
  const { cli, http, mutates, role, summary } = CATALOG[name]

  test('names only fields of its input in its forms', () => {
    const places = [...cli.matchAll(/[<[](\w+)[>\]]/g), ...http.matchAll(/:(\w+)/g)].map((match) => match[1])
    expect(fieldsOf(name)).toEqual(expect.arrayContaining(places))
  })

  test('is a GET for viewers, or mutates with a dry run; access operations need the role admin', () => {
    expect(http.startsWith('GET /api/')).toBe(!mutates)
    const isAboutAccess = /^(accounts|tokens|sign-in-links)\./.test(name)
    expect(role).toBe(isAboutAccess ? 'admin' : mutates ? 'operator' : 'viewer')
    expect(fieldsOf(name).includes('dryRun')).toBe(mutates)
  })

  test('has a summary of its purpose and a description of every field', () => {
    expect(summary).toMatch(/^[A-Z].*\.$/)
    for (const [field, schema] of Object.entries(OPERATIONS[name].input.shape)) {
      expect((schema as { description?: string }).description, field).toBeTruthy()
    }
  })
})
