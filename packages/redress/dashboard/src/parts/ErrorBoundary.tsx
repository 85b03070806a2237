import { Component, type ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { useLocation } from 'preact-iso'
import { Page } from './Page.tsx'

/** Loaded by the browser itself: neither what is kept in this page nor what failed to load is used again. */
const LoadAgain = () => (
  <p>
    <a href={location.pathname + location.search} target="_top">
      Load it again
    </a>
  </p>
)

const LOOK_AGAIN_MS = 2_000
/** Where the server is there and the program still does not come, to load it over and over would only be in the way. */
const RELOAD_MS_MIN = 60_000
const RELOADED = 'redress.reloaded'

async function loadWhenBack(): Promise<void> {
  if (Date.now() - Number(sessionStorage.getItem(RELOADED) ?? 0) < RELOAD_MS_MIN) return
  const answer = await fetch('/healthz').catch(() => null)
  if (answer === null) return
  sessionStorage.setItem(RELOADED, String(Date.now()))
  location.reload()
}

/**
 * In place of a page whose program did not arrive: the connection was lost, or the server was replaced by another
 * version. A browser keeps what failed to load as failed, so the page is loaded anew as soon as the server is back.
 */
export function NotLoaded() {
  useEffect(() => {
    const looking = setInterval(() => void loadWhenBack(), LOOK_AGAIN_MS)
    return () => clearInterval(looking)
  }, [])
  return (
    <Page title="This page is not loaded">
      <div class="notice bad" role="alert">
        <p>The page could not be loaded from the server. It reloads when the server is back.</p>
        <LoadAgain />
      </div>
    </Page>
  )
}

export function PageErrorBoundary({ children }: { children: ComponentChildren }) {
  return <Guard url={useLocation().url}>{children}</Guard>
}

interface Guarded {
  url: string
  children: ComponentChildren
}

/** A page that breaks says so, and the way to the others stays. */
class Guard extends Component<Guarded, { brokenUrl: string | null }> {
  override state = { brokenUrl: null }

  override componentDidCatch(error: unknown): void {
    this.setState({ brokenUrl: this.props.url })
    reportError(error)
  }

  override render({ url, children }: Guarded) {
    if (this.state.brokenUrl !== url) return children
    return (
      <Page title="This page broke">
        <div class="notice bad" role="alert">
          <p>
            <strong>It met something that it was not made for.</strong> The other pages work, and nothing was changed.
            The console of the browser has the details.
          </p>
          <LoadAgain />
        </div>
      </Page>
    )
  }
}
