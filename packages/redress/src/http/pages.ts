const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Text that is markup already, and is not escaped again. */
export class Html {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
  toString(): string {
    return this.text
  }
}

type Part = Html | string | number | null | undefined | false | readonly Part[]

const escaped = (part: Part): string => {
  if (part instanceof Html) return part.text
  if (Array.isArray(part)) return part.map(escaped).join('')
  if (part === null || part === undefined || part === false) return ''
  return String(part).replace(/[&<>"']/g, (character) => ESCAPES[character] as string)
}

/** Markup in which everything that is put in is text, unless it was made here itself. */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Html {
  return new Html(strings.reduce((text, string, i) => text + escaped(parts[i - 1]) + string))
}

/**
 * A whole document. No script or style is in it: the policy of the server would not let them run. `head` is for links to
 * such, and for what else belongs there.
 */
export function page(title: string, body: Html, head: Html | null = null): string {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<link rel="stylesheet" href="/assets/base.css">${head}
</head>
<body>
<main>
${body}
</main>
</body>
</html>
`.text
}

/** What every page of the server looks like, in light and in dark. */
export const BASE_CSS = `:root {
  color-scheme: light dark;
  --text: light-dark(#1b1f24, #e6e8eb);
  --quiet: light-dark(#57606a, #9aa4af);
  --ground: light-dark(#ffffff, #14171a);
  --raised: light-dark(#f4f6f8, #1e2327);
  --line: light-dark(#d5dae0, #343b42);
  --accent: light-dark(#0b57d0, #7fb0ff);
  --on-accent: light-dark(#ffffff, #0b1220);
  --problem: light-dark(#b3261e, #ff9d94);
}
* { box-sizing: border-box }
body { margin: 0; background: var(--ground); color: var(--text); font: 16px/1.5 system-ui, sans-serif }
main { max-width: 40rem; margin: 4rem auto; padding: 0 1.25rem }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 1rem }
code, pre { font: 0.9em/1.5 ui-monospace, monospace }
pre { background: var(--raised); border: 1px solid var(--line); border-radius: 6px; padding: 0.75rem 1rem; overflow-x: auto }
button { font: inherit; color: var(--on-accent); background: var(--accent); border: 0; border-radius: 6px; padding: 0.6rem 1.25rem; cursor: pointer }
button:focus-visible, a:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
.problem { color: var(--problem) }
.quiet { color: var(--quiet) }
`

/** `code` is the secret of the link; without it the page explains how to get a link. */
export function signInPage(code: string | null, problem: string | null): string {
  const body =
    code === null
      ? html`
<h1>Sign in</h1>
${problem !== null && html`<p class="problem" role="alert">${problem}</p>`}
<p>To sign in, open a link that this command prints on the machine of the server:</p>
<pre><code>redress sign-in</code></pre>
<p>An admin can create one for you: <code>redress sign-in --role operator --account NAME</code>.</p>`
      : html`
<h1>Sign in</h1>
<p>This link works once. You stay signed in on this browser for 12 hours.</p>
<form method="post" action="/sign-in">
<input type="hidden" name="code" value="${code}">
<button type="submit">Sign in</button>
</form>`
  return page('Sign in · Redress', body)
}

/** Shown while the store cannot be reached. */
export function downPage(why: string): string {
  return page(
    'The store cannot be reached · Redress',
    html`
<h1>The store cannot be reached</h1>
<p>The server is running and retries every few seconds. No acknowledged job is lost.</p>
<p class="quiet">${why}</p>
<p>On the machine of the server, run <code>redress doctor</code> to find the cause.</p>`,
  )
}

/** In a checkout of the sources whose pages were not built. The package that is installed has them. */
export function notBuiltPage(): string {
  return page(
    'The pages are not built · Redress',
    html`
<h1>The pages are not built</h1>
<p>The server, its API and the command line work. Build the pages once:</p>
<pre><code>npm run prepare</code></pre>
<p>Then start the server again.</p>`,
  )
}
