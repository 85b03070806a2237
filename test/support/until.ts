type Truthy<T> = Exclude<T, false | 0 | '' | null | undefined>

interface UntilOptions {
  /** A bound for a machine that hangs, not a measure of speed. */
  withinMs?: number
  everyMs?: number
}

/** Waits for a condition that another process brings about, and says which one when it never comes. */
export async function until<T>(
  what: string,
  condition: () => T | Promise<T>,
  { withinMs = 30_000, everyMs = 10 }: UntilOptions = {},
): Promise<Truthy<T>> {
  const startedMs = performance.now()
  for (;;) {
    const answer = await condition()
    if (answer) return answer as Truthy<T>
    const waitedMs = performance.now() - startedMs
    if (waitedMs > withinMs) throw new Error(`waited ${Math.round(waitedMs)} ms in vain until ${what}`)
    await new Promise((resolve) => setTimeout(resolve, everyMs))
  }
}

/** Lets everything that needs no time happen: answers of an embedded store, and what follows from them. */
export async function turns(count = 20): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise<void>((resolve) => setImmediate(resolve))
}
