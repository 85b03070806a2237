import { html, page } from './html.ts'

/** `code` is the secret of the link; without one there is nothing to do here but to say how to get one. */
export function signInPage(code: string | null, problem: string | null): string {
  const body =
    code === null
      ? html`
<h1>Sign in</h1>
${problem !== null && html`<p class="problem" role="alert">${problem}</p>`}
<p>To sign in, open a link that is made for you on the machine of the server:</p>
<pre><code>redress sign-in</code></pre>
<p>An admin can make one for you: <code>redress sign-in --role operator --account NAME</code>.</p>`
      : html`
<h1>Sign in</h1>
<p>This link works once. You stay signed in on this browser for 12 hours.</p>
<form method="post" action="/sign-in">
<input type="hidden" name="code" value="${code}">
<button type="submit">Sign in</button>
</form>`
  return page('Sign in · Redress', body)
}
