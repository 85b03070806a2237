import type { App } from '../../app/app.ts'
import { placeText } from '../../app/store/open-store.ts'
import { channelOfType, isOwnType } from '../../core/notice/notice.ts'
import type { OutputOf } from '../../operations/table.ts'
import { commandName, quoted } from '../language/commands.ts'
import { type StoreChoice, storeFlag } from '../target/store-option.ts'
import { addressHere } from '../target/target.ts'
import { currentUser } from '../terminal/terminal.ts'
import { exampleInput } from './example-input.ts'

/** What `start` and `worker` have begun. */
export interface Started {
  app: App
  worker: string | null
  /** The job types that run here. Without a worker, those that the app declares. */
  types: readonly string[]
  /** Where it listens; null without HTTP. */
  url: string | null
  publicUrl: string | null
  /** There is no sign-in. */
  isOpen: boolean
  /** A link for the first admin; null where there has been one. */
  signIn: string | null
  isSample: boolean
  /** Where people begin, by app. */
  pages: readonly string[]
  /** Whose jobs are handed in through doors of their own. */
  hasSystems: boolean
}

export function introduction(started: Started, choice: StoreChoice): string {
  const { app, worker, isSample } = started
  const { location } = app
  const file = location === null ? 'opened by the app' : placeText(location)
  // An app with its own store ignores these options.
  const flags = location === null || location === choice.location ? choice.flags : storeFlag(location)
  const me = (words: string) => `  ${commandName()} ${words}${flags}\n`
  const sample = `submit sample.convert '{"file":"a.pdf","gateway":"down"}'`
  // Deliveries of notices are jobs too, but are not submitted by hand.
  const types = started.types.filter((type) => !isOwnType(type))
  const channels = started.types.flatMap((type) => channelOfType(type) ?? [])
  const submit = isSample ? sample : submitCommand(app, types[0])
  return [
    `redress is ${worker === null ? 'serving' : 'running'}${isSample ? ', with a sample app that fails on purpose' : ''}.\n\n`,
    ...serverLines(started),
    ...pageLines(started),
    `  store   ${file}\n`,
    `  types   ${types.join(', ') || 'none: the app declares no job types'}\n`,
    ...(channels.length === 0 ? [] : [`  notify  ${channels.join(', ')}\n`]),
    `  worker  ${worker ?? 'none here (--no-worker)'}\n`,
    ...signInLines(started, `${commandName()} sign-in${flags}`),
    ...(isSample || !started.hasSystems
      ? ['\nIn another terminal, submit a job, list jobs, and ask why one failed:\n\n', me(submit)]
      : ['\nIn another terminal, list jobs, and ask why one failed:\n\n']),
    me('jobs list'),
    me('explain JOB'),
    worker === null
      ? '\nCtrl-C stops it: running requests may finish.\n\n'
      : '\nCtrl-C stops it: running jobs may finish, all others go back to the queue.\n\n',
  ].join('')
}

function submitCommand(app: App, type: string | undefined): string {
  const input = type === undefined ? null : exampleInput(app.describe(type)?.input)
  return `submit ${type ?? 'TYPE'} ${input === null ? 'INPUT' : quoted(input)}`
}

function serverLines({ url, publicUrl, isOpen }: Started): string[] {
  if (url === null) return []
  const elsewhere = publicUrl === null || publicUrl === url ? '' : `, as ${publicUrl}`
  return [`  server  ${url}${elsewhere}${isOpen ? ' (no sign-in: open to everyone on this machine)' : ''}\n`]
}

const pageLines = ({ publicUrl, pages }: Started): string[] =>
  publicUrl === null ? [] : pages.map((path) => `  page    ${publicUrl}${path}\n`)

function signInLines({ publicUrl, isOpen, signIn }: Started, command: string): string[] {
  if (publicUrl === null || isOpen) return []
  if (signIn !== null) {
    const what = 'Open this link to sign in as the first admin. It works once, within one hour:'
    return [`\nNo admin has signed in yet. ${what}\n\n  ${signIn}\n`]
  }
  // The command makes a link to where it believes the server to be.
  const where = publicUrl === addressHere() ? '' : `REDRESS_PUBLIC_URL=${quoted(publicUrl)} `
  return [`\nSign in with a link from:\n\n  ${where}${command}\n`]
}

const PAGE = 1_000

/**
 * A link for the first admin, until an admin has signed in: a person who reads this output could make one
 * anyway. An unused link does not count: otherwise a missed link would lock the admin out.
 */
export async function firstSignIn(app: App, publicUrl: string): Promise<string | null> {
  if (await hasAdmin(app)) return null
  const { path } = await app.perform('sign-in-links.create', {
    role: 'admin',
    for: '1h',
    actor: currentUser() || 'redress',
    reason: 'server start: no admin has signed in yet',
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
