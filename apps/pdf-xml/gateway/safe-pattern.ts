/**
 * Says what is wrong with a regular expression, or nothing. Refused are those that do not compile, and repetitions inside
 * repetitions ('(a+)*'): on a text that almost matches, they take longer than anybody waits. This does not find every slow
 * pattern; the time limit of the document ends the others.
 */
export function patternProblem(pattern: string): string | undefined {
  try {
    new RegExp(pattern, 'gmu')
  } catch (error) {
    return (error as Error).message
  }
  return nestsRepetitions(pattern)
    ? 'a repetition inside a repetition can take forever: write it without the inner one'
    : undefined
}

/** '+', '*' and '{2,}' have no end of their own. */
const UNBOUNDED = /^(?:[*+]|\{\d+,\})/

function nestsRepetitions(pattern: string): boolean {
  // For each group that is open: is there a repetition in it?
  const open: boolean[] = [false]
  for (let i = 0; i < pattern.length; i++) {
    const char = pattern[i]
    if (char === '\\') i++
    else if (char === '[') i = endOfClass(pattern, i)
    else if (char === '(') open.push(false)
    else if (char === ')') {
      const inner = open.pop() ?? false
      const isRepeated = UNBOUNDED.test(pattern.slice(i + 1))
      if (inner && isRepeated) return true
      open[open.length - 1] = open.at(-1) === true || inner || isRepeated
    } else if (UNBOUNDED.test(pattern.slice(i))) open[open.length - 1] = true
  }
  return false
}

function endOfClass(pattern: string, start: number): number {
  for (let i = start + 1; i < pattern.length; i++) {
    if (pattern[i] === '\\') i++
    else if (pattern[i] === ']') return i
  }
  return pattern.length
}
