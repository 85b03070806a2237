/** The known name that is nearest to a typo, or null when none is near. */
export function nearest(typed: string, known: readonly string[]): string | null {
  let best: { name: string; distance: number } | null = null
  for (const name of known) {
    const distance = name.startsWith(typed) ? 1 : editDistance(typed.toLowerCase(), name)
    if (best === null || distance < best.distance) best = { name, distance }
  }
  // A third of the letters wrong is a slip; more is another word.
  return best !== null && best.distance <= Math.max(1, Math.ceil(typed.length / 3)) ? best.name : null
}

/** How many letters must be added, left out or replaced to make one word of the other. */
export function editDistance(one: string, other: string): number {
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

/** Job types and stages are named by their authors; the names are printed, stored and used as labels. */
const NAME = /^[a-zA-Z][\w.:-]{0,99}$/

export const isName = (name: unknown): name is string => typeof name === 'string' && NAME.test(name)
