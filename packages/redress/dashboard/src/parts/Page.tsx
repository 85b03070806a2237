import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'

interface Props {
  title: string
  /** Beside the title: buttons, a copy as CLI. */
  aside?: ComponentChildren
  children: ComponentChildren
}

let isFirst = true

/** A page with its heading; the tab says the same. */
export function Page({ title, aside, children }: Props) {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    document.title = `${title} · Redress`
  }, [title])
  // The link that led here is gone, and the focus with it: whoever does not see the page is told where they are, and
  // goes on from there. The first page is told of by the browser.
  useLayoutEffect(() => {
    if (!isFirst) heading.current?.focus({ preventScroll: true })
    isFirst = false
  }, [])
  return (
    <>
      <div class="page-head">
        <h1 ref={heading} tabIndex={-1}>
          {title}
        </h1>
        {aside !== undefined && <div class="page-aside">{aside}</div>}
      </div>
      {children}
    </>
  )
}
