import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ENVIRONMENT } from '../../packages/redress/src/runtime/environment.ts'

const SRC = join(import.meta.dirname, '../../packages/redress/src')
const TABLE = 'runtime/environment.ts'
const sources = readdirSync(SRC, { recursive: true })
  .map(String)
  .filter((name) => name.endsWith('.ts') && name !== TABLE)
  .map((name) => ({ name, text: readFileSync(join(SRC, name), 'utf8') }))

/** process.env.NAME, env.NAME, const { NAME } = process.env, and ({ NAME }: NodeJS.ProcessEnv). */
function variablesIn(text: string): string[] {
  const dotted = [...text.matchAll(/\benv\??\.([A-Z][A-Z0-9_]+)\b/g)].map((match) => match[1] as string)
  const destructured = [...text.matchAll(/\{([^{}]*)\}(?: = process\.env\b|: NodeJS\.ProcessEnv\b)/g)].flatMap(
    (match) => (match[1] as string).split(',').map((part) => part.trim().split(/[:= ]/)[0] as string),
  )
  const named = text.match(/\b(?:REDRESS|OTEL)_[A-Z0-9_]+\b/g) ?? []
  return [...dotted, ...destructured, ...named].filter((name) => name !== '')
}

test('the reader of this test finds every way in which the code reads a variable', () => {
  expect(variablesIn('process.env.ONE ?? env.TWO_2')).toEqual(['ONE', 'TWO_2'])
  expect(variablesIn('const { THREE, FOUR: own = 1 } = process.env')).toEqual(['THREE', 'FOUR'])
  expect(variablesIn('function of({ FIVE }: NodeJS.ProcessEnv)')).toEqual(['FIVE'])
  expect(variablesIn(`'see $REDRESS_SIX'`)).toEqual(['REDRESS_SIX'])
})

test('every variable of the environment that the code reads is in the table, from which its page is made', () => {
  const unknown = sources.flatMap(({ name, text }) =>
    variablesIn(text)
      .filter((variable) => !(variable in ENVIRONMENT))
      .map((variable) => `src/${name} reads ${variable}, which is not in src/${TABLE}`),
  )
  expect([...new Set(unknown)]).toEqual([])
})

test('a name that is only known when the program runs is read in one place, which hands variables on', () => {
  const computed = sources.filter(({ text }) => /\benv\[/.test(text)).map(({ name }) => name)
  expect(computed).toEqual(['programs/launch.ts'])
})

test('the table names nothing that nobody reads', () => {
  const all = sources.map(({ text }) => text).join('\n')
  const unread = Object.entries(ENVIRONMENT)
    .filter(([name, variable]) => !('readBy' in variable) && !all.includes(name))
    .map(([name]) => name)
  expect(unread).toEqual([])
})
