/**
 * On which line each value of a JSON text begins: `lineOf(['fields', 2, 'type'])`. Where there is no such value, the line of
 * what it would be in. The text must have been parsed before: this looks for places, not for mistakes.
 */
export function linesOfJson(text: string): (path: readonly PropertyKey[]) => number {
  const lines = new Map<string, number>()
  const tokens = text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}:,]|[^\s[\]{}:,"]+/g)
  let line = 1
  let counted = 0
  const next = (): string => {
    const token = tokens.next().value
    if (token === undefined) return ''
    line += text.slice(counted, token.index).split('\n').length - 1
    counted = token.index
    return token[0]
  }
  const note = (path: readonly PropertyKey[]) => lines.set(keyOf(path), line)
  const value = (token: string, path: readonly PropertyKey[]): void => {
    note(path)
    if (token === '[') {
      for (let i = 0, inner = next(); inner !== ']' && inner !== ''; i++) {
        value(inner, [...path, i])
        inner = next()
        if (inner === ',') inner = next()
      }
    } else if (token === '{') {
      for (let name = next(); name !== '}' && name !== ''; ) {
        const inner = [...path, JSON.parse(name) as string]
        next()
        value(next(), inner)
        name = next()
        if (name === ',') name = next()
      }
    }
  }
  value(next(), [])
  return (path) => {
    for (let length = path.length; length > 0; length--) {
      const found = lines.get(keyOf(path.slice(0, length)))
      if (found !== undefined) return found
    }
    return 1
  }
}

const keyOf = (path: readonly PropertyKey[]): string => JSON.stringify(path)
