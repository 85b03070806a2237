import { editDistance } from './edit-distance.ts'

/** What was probably meant, or null when nothing is near. */
export function nearest(typed: string, known: readonly string[]): string | null {
  let best: { name: string; distance: number } | null = null
  for (const name of known) {
    const distance = name.startsWith(typed) ? 1 : editDistance(typed.toLowerCase(), name)
    if (best === null || distance < best.distance) best = { name, distance }
  }
  // A third of the letters wrong is a slip; more is another word.
  return best !== null && best.distance <= Math.max(1, Math.ceil(typed.length / 3)) ? best.name : null
}
