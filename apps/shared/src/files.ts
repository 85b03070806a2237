import { open } from 'node:fs/promises'

/** Makes the content of a file, or the names in a folder, survive a power failure. */
export async function synced(path: string): Promise<void> {
  const file = await open(path, 'r')
  try {
    await file.sync()
  } finally {
    await file.close()
  }
}

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
