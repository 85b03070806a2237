import { html, page } from './html.ts'

/** While the store cannot be reached. It says what is known, and that somebody keeps trying. */
export function downPage(why: string): string {
  return page(
    'The store cannot be reached · Redress',
    html`
<h1>The store cannot be reached</h1>
<p>The server runs, and asks for its store again every few seconds. Nothing that was acknowledged is lost.</p>
<p class="quiet">${why}</p>
<p>On the machine of the server, <code>redress doctor</code> says what is wrong and what to do.</p>`,
  )
}
