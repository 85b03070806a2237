const CHARS_MAX = 200

/** As it is shown and given back: never a path, and nothing that a terminal or a page would obey. */
export function plainFileName(given: string, fallback: string): string {
  const last = given.split(/[/\\]/).at(-1) ?? ''
  const plain = last
    .toWellFormed()
    .replace(/[\p{Cc}\p{Cf}]/gu, '')
    .trim()
  // Cut last: half of a character at the end would be no text that a header or a database takes.
  const cut = plain.slice(0, CHARS_MAX).replace(/[\uD800-\uDBFF]$/, '')
  return cut === '' ? fallback : cut
}

/** The header that has a file saved, never shown: what strangers sent must not become a page of ours. */
export function attachment(name: string): string {
  const plain = name.replace(/[^\w.() -]/g, '_').slice(0, 150)
  const encoded = encodeURIComponent(name.toWellFormed().slice(0, 150)).replace(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16)}`,
  )
  return `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`
}
