import type { AccountView } from '../../operations/accounts/accounts.ts'
import type { TokenView } from '../../operations/accounts/tokens.ts'
import type { OutputOf } from '../../operations/table.ts'
import { type Column, columns } from '../terminal/columns.ts'
import { ago, type Style } from '../terminal/terminal.ts'
import type { Renderers, Rendering } from './rendering.ts'

function accountList({ accounts }: OutputOf<'accounts.list'>, { terminal }: Rendering): string {
  const shape: Column<AccountView>[] = [
    { title: 'ACCOUNT', of: ({ name }) => name },
    { title: 'EMAIL', of: ({ email }) => email, charsMin: 12 },
    {
      title: 'STATE',
      of: ({ disabledAt }) => (disabledAt === null ? 'active' : `disabled ${ago(disabledAt, terminal)}`),
      style: ({ disabledAt }) => (disabledAt === null ? 'good' : 'bad'),
    },
    { title: 'CREATED', of: ({ createdAt }) => ago(createdAt, terminal) },
  ]
  return columns(accounts, shape, terminal)
}

function accountMade(output: OutputOf<'accounts.create'>, { hint, command }: Rendering): string {
  if (output.account !== null) {
    const token = command('tokens', 'create', '--role', 'owner', '--account', output.account.name, '--name', 'NAME')
    hint(`Give it a token: ${token}`)
  }
  return `${output.did}\n`
}

/** The secret alone on standard output, so that it can be piped to where it is needed. */
function tokenMade(output: OutputOf<'tokens.create'>, { hint, command }: Rendering): string {
  const { did, token, id } = output
  if (token === null || id === null) return `${did}\n`
  hint(`${did} It is shown only once.`)
  hint(`Revoke it: ${command('tokens', 'revoke', id, '--reason', "'WHY'")}`)
  return `${token}\n`
}

function linkMade({ did, path }: OutputOf<'sign-in-links.create'>, { hint, server }: Rendering): string {
  if (path === null) return `${did}\n`
  hint(`${did} Open it in a browser.`)
  return `${server}${path}\n`
}

const STYLES: Readonly<Record<TokenView['state'], Style>> = {
  active: 'good',
  expired: 'quiet',
  used: 'quiet',
  revoked: 'bad',
  disabled: 'bad',
}

function tokenList({ tokens, nextCursor }: OutputOf<'tokens.list'>, { terminal, hint }: Rendering): string {
  const shape: Column<TokenView>[] = [
    { title: 'ID', of: ({ id }) => id },
    { title: 'NAME', of: ({ name }) => name, charsMin: 8 },
    { title: 'ROLE', of: ({ role }) => role },
    { title: 'ACCOUNT', of: ({ account }) => account, charsMin: 7 },
    { title: 'SCOPES', of: ({ scopes }) => scopes?.join(', ') ?? 'all', charsMin: 6 },
    { title: 'STATE', of: ({ state }) => state, style: ({ state }) => STYLES[state] },
    { title: 'EXPIRES', of: ({ expiresAt }) => (expiresAt === null ? 'never' : ago(expiresAt, terminal)) },
    { title: 'LAST USED', of: ({ lastUsedAt }) => (lastUsedAt === null ? 'never' : ago(lastUsedAt, terminal)) },
    { title: 'MADE BY', of: ({ createdBy }) => createdBy, charsMin: 8 },
  ]
  if (nextCursor !== null) hint(`More: add --cursor ${nextCursor}`)
  return columns(tokens, shape, terminal)
}

const accessActed = ({ did }: { did: string }): string => `${did}\n`

export const accountRenderers = {
  'accounts.create': accountMade,
  'accounts.list': accountList,
  'accounts.disable': accessActed,
  'tokens.create': tokenMade,
  'tokens.list': tokenList,
  'tokens.revoke': accessActed,
  'sign-in-links.create': linkMade,
} satisfies Partial<Renderers>
