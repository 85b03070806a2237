import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'

interface Props {
  title: string
  /** Beside the title: buttons, a copy as CLI. */
  aside?: ComponentChildren
  children: ComponentChildren
}

/** A page with its heading; the tab says the same. */
export function Page({ title, aside, children }: Props) {
  useEffect(() => {
    document.title = `${title} · Redress`
  }, [title])
  return (
    <>
      <div class="page-head">
        <h1>{title}</h1>
        {aside !== undefined && <div class="page-aside">{aside}</div>}
      </div>
      {children}
    </>
  )
}
