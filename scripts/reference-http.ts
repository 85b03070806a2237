import { openApi } from '../packages/redress/src/http/routes/openapi.ts'
import { CATALOG } from '../packages/redress/src/operations/catalog.ts'
import { page, table } from './reference-text.ts'

interface Described {
  summary: string
  description?: string
  security?: readonly object[]
}

/** From the document that the server itself hands out, so that no route is missing. */
export function httpPage(): string {
  const { paths } = openApi('', '/', 'redress') as { paths: Record<string, Record<string, Described>> }
  const rows = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, described]) => {
      const route = `${method.toUpperCase()} ${path.replaceAll(/\{([a-zA-Z]+)\}/g, ':$1')}`
      return [`\`${route}\``, roleOf(route, described), described.summary]
    }),
  )
  return page(
    'HTTP',
    `The routes of \`redress start\`. A running server describes each with its fields at \`GET /openapi.json\`. Send a token
(\`Authorization: Bearer ...\`); the roles are in the [guide on accounts](../guides/operate/accounts.md). Every refusal has a code of
the [table of errors](errors.md).`,
    table(['route', 'from role', 'what'], rows),
  )
}

const ROLES = new Map(
  Object.values(CATALOG).map((entry) => [
    entry.http as string,
    'allowsOwners' in entry && entry.allowsOwners ? `${entry.role}, owner` : entry.role,
  ]),
)

/** What is no operation says it in its description. */
function roleOf(route: string, { description = '', security }: Described): string {
  const named = ROLES.get(route)
  if (named !== undefined) return named
  const role = /role (\w+)/.exec(description)?.[1]
  if (role === undefined) return security?.length === 0 ? 'open to all' : 'any'
  return description.includes('or owner') ? `${role}, owner` : role
}
