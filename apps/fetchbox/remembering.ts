const KEPT_MAX = 200

/** Asks once for what does not change, and keeps the newest answers. A failure is not kept. */
export function remembering<T>(ask: (key: string) => Promise<T>): (key: string) => Promise<T> {
  const answers = new Map<string, Promise<T>>()
  return (key) => {
    const known = answers.get(key)
    if (known !== undefined) return known
    const asked = ask(key).catch((error: unknown) => {
      answers.delete(key)
      throw error
    })
    answers.set(key, asked)
    const [oldest] = answers.keys()
    if (answers.size > KEPT_MAX && oldest !== undefined) answers.delete(oldest)
    return asked
  }
}
