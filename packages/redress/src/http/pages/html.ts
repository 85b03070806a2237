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
