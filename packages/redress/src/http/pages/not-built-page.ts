import { html, page } from './html.ts'

/** In a checkout of the sources whose pages were not built. The package that is installed has them. */
export function notBuiltPage(): string {
  return page(
    'The pages are not built · Redress',
    html`
<h1>The pages are not built</h1>
<p>The server runs, and its API and the command line work. Its pages are made from their sources once:</p>
<pre><code>npm run prepare</code></pre>
<p>Then start the server again.</p>`,
  )
}
