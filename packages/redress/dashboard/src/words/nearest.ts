/** How many letters must be added, left out or replaced to make one word of the other. */
function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index)
  for (const [i, letter] of [...one].entries()) {
    const next = [i + 1]
    for (const [j, otherLetter] of [...other].entries()) {
      const replaced = (row[j] ?? 0) + (letter === otherLetter ? 0 : 1)
      next.push(Math.min(replaced, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1))
    }
    row = next
  }
  return row.at(-1) ?? 0
}

const LETTERS_MAX = 100

/** What was probably meant, or null when nothing is near: a third of the letters wrong is a slip, more is another word. */
export function nearest(typed: string, known: readonly string[]): string | null {
  if (typed === '' || typed.length > LETTERS_MAX) return null
  const small = typed.toLowerCase()
  const measured = known.map((name) => ({
    name,
    away: name.toLowerCase().startsWith(small) ? 1 : distance(small, name.toLowerCase().slice(0, LETTERS_MAX)),
  }))
  const best = measured.sort((a, b) => a.away - b.away)[0]
  return best !== undefined && best.away <= Math.max(1, Math.ceil(typed.length / 3)) ? best.name : null
}
