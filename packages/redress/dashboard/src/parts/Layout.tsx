import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { useLocation } from 'preact-iso'
import { isLive, staleSince } from '../api/live.ts'
import { isOwner, me, signedOut } from '../api/session.ts'
import { clock, now } from '../words/time.ts'
import { ActDialog } from './actions/ActDialog.tsx'
import { announcements, dismiss } from './announce.ts'
import { Icon } from './Icon.tsx'
import { ThemeButton } from './Theme.tsx'

const PLACES: readonly { href: string; name: string; forOwners?: boolean }[] = [
  { href: '/', name: 'Overview' },
  { href: '/failures', name: 'Failures' },
  { href: '/jobs', name: 'Jobs', forOwners: true },
  { href: '/batches', name: 'Batches', forOwners: true },
  { href: '/dead-letters', name: 'Dead letters' },
  { href: '/replays', name: 'Replays' },
  { href: '/orphans', name: 'Orphans' },
  { href: '/breakers', name: 'Breakers' },
  { href: '/queues', name: 'Queues' },
  { href: '/workers', name: 'Workers' },
  { href: '/schedules', name: 'Schedules' },
  { href: '/policies', name: 'Policies' },
  { href: '/audit', name: 'Audit' },
]

const isAt = (path: string, href: string): boolean => (href === '/' ? path === '/' : `${path}/`.startsWith(`${href}/`))

export function Layout({ children }: { children: ComponentChildren }) {
  const { path } = useLocation()
  useTopOfNextPage()
  const [isOpen, setOpen] = useState(false)
  const places = PLACES.filter(({ forOwners }) => forOwners === true || !isOwner())
  return (
    <div class="frame">
      <a class="skip" href="#content">
        Skip to the content
      </a>
      <header class="top">
        <a class="brand" href={isOwner() ? '/jobs' : '/'}>
          <Icon name="processing" /> Redress
        </a>
        <Liveness />
        <ThemeButton />
        {me.value !== null && (
          <form method="post" action="/sign-out" class="who">
            <span title={`Role: ${me.value.role}`}>
              {me.value.name} <span class="quiet">{me.value.role}</span>
            </span>
            <button type="submit" class="plain small">
              Sign out
            </button>
          </form>
        )}
        <button
          type="button"
          class="plain menu"
          aria-expanded={isOpen}
          aria-controls="places"
          onClick={() => setOpen(!isOpen)}
        >
          <Icon name={isOpen ? 'close' : 'menu'} /> Menu
        </button>
      </header>
      <nav id="places" class={isOpen ? 'open' : undefined} aria-label="Pages">
        <ul>
          {places.map(({ href, name }) => (
            <li key={href}>
              <a href={href} aria-current={isAt(path, href) ? 'page' : undefined} onClick={() => setOpen(false)}>
                {name}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <main id="content" tabIndex={-1}>
        <Stale />
        {children}
      </main>
      <Announcements />
      <ActDialog />
    </div>
  )
}

/** Whoever asks for the next page of a list begins to read it at its top. Whoever goes back is where they were. */
function useTopOfNextPage(): void {
  const { query, wasPush } = useLocation() as ReturnType<typeof useLocation> & { wasPush: boolean }
  const place = `${query.cursor} ${query.after}`
  const before = useRef(place)
  useLayoutEffect(() => {
    if (before.current !== place && wasPush) scrollTo(0, 0)
    before.current = place
  }, [place])
}

function Liveness() {
  return (
    <p class={`liveness ${isLive.value ? 'live' : 'away'}`} role="status">
      {liveness()}
    </p>
  )
}

function liveness(): string {
  if (isLive.value) return 'Live'
  if (signedOut.value) return 'Signed out'
  return staleSince.value === null ? 'Connecting …' : 'Not connected'
}

/** What is on the page is true as of a moment, and this says so when that is over. */
function Stale() {
  if (signedOut.value) {
    return (
      <div class="notice warn" role="alert">
        <p>
          <strong>Your session is over.</strong> The data on this page is from before. Make a link with{' '}
          <code>redress sign-in</code>, open it in this browser, and then{' '}
          {/* A target of its own keeps the router out: the browser loads the page, as whoever has signed in. */}
          <a href={location.pathname + location.search} target="_top">
            load this page again
          </a>
          .
        </p>
      </div>
    )
  }
  if (staleSince.value === null) return null
  const since = new Date(staleSince.value).toISOString()
  return (
    <div class="notice warn" role="alert">
      <p>
        <strong>Stale since {clock(since, now.value)}.</strong> The server cannot be reached; this page tries again by
        itself and will catch up.
      </p>
    </div>
  )
}

function Announcements() {
  return (
    <div class="announcements" role="log" aria-label="What was done">
      {announcements.value.map(({ id, text, tone }) => (
        <div key={id} class={`announcement ${tone}`}>
          <span>{text}</span>
          <button type="button" class="plain small" onClick={() => dismiss(id)}>
            <Icon name="close" />
            <span class="unseen">Dismiss</span>
          </button>
        </div>
      ))}
    </div>
  )
}
