import type { App } from '../../app/app.ts'
import type { OutputOf } from '../../operations/table.ts'
import { currentUser } from '../terminal/current-user.ts'

const PAGE = 1_000

/**
 * A link for the first admin, as long as there has been none: whoever reads this process's output could make one
 * anyway. A link that nobody has used does not count, or whoever missed it would be locked out of their own server.
 */
export async function firstSignIn(app: App, publicUrl: string): Promise<string | null> {
  if (await hasAdmin(app)) return null
  const { path } = await app.perform('sign-in-links.create', {
    role: 'admin',
    for: '1h',
    actor: currentUser() || 'redress',
    reason: 'the server was started, and nobody has signed in as an admin yet',
  })
  return path === null ? null : `${publicUrl}${path}`
}

async function hasAdmin(app: App): Promise<boolean> {
  for (const kind of ['token', 'session', 'link'] as const) {
    let cursor: string | null = null
    do {
      const page: OutputOf<'tokens.list'> = await app.perform('tokens.list', {
        kind,
        limit: PAGE,
        ...(cursor !== null && { cursor }),
      })
      if (page.tokens.some(({ role, lastUsedAt }) => role === 'admin' && (kind !== 'link' || lastUsedAt !== null))) {
        return true
      }
      cursor = page.nextCursor
    } while (cursor !== null)
  }
  return false
}
