import { z } from 'zod'
import { RedressError } from '../../core/errors.ts'
import { nearest } from '../../core/text/names.ts'
import { mayRole, type Role, splitScopes } from '../caller.ts'
import { CATALOG, type OperationName } from '../catalog.ts'
export const scopesField = z
  .union([z.string(), z.array(z.string())])
  .optional()
  .describe(
    `only these operations ('jobs.list') or groups of them ('jobs.*'), with commas; all of the role when left out`,
  )

const NAMES = Object.keys(CATALOG) as OperationName[]
const GROUPS = [...new Set(NAMES.map((name) => `${name.split('.')[0]}.*`))]

/** As they are kept; null for all that the role allows. A scope that would never let anything through is a mistake. */
export function readScopes(given: z.infer<typeof scopesField>, role: Role): string[] | null {
  if (given === undefined) return null
  const scopes = splitScopes(given)
  if (scopes.length === 0) throw refused('none is given; leave it out for all that the role allows')
  for (const scope of scopes) {
    const names = namesIn(scope)
    if (names.length === 0) {
      const meant = nearest(scope, [...NAMES, ...GROUPS])
      throw refused(`there is no operation ${scope}${meant === null ? '' : `; the nearest is ${meant}`}`)
    }
    if (!names.some((name) => mayRole(role, CATALOG[name]))) throw refused(`the role ${role} may not do ${scope}`)
  }
  return scopes
}

const namesIn = (scope: string): OperationName[] =>
  NAMES.filter((name) => name === scope || (scope.endsWith('.*') && name.startsWith(scope.slice(0, -1))))

const refused = (problem: string): RedressError => new RedressError('OPTION_INVALID', `scopes: ${problem}.`)
