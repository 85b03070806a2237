/** Waits for a handler's answer, and not for ever: what never answers would hold its caller as long. */
export async function inTime<T>(work: T | Promise<T>, limitMs: number): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`it gave no answer within ${limitMs} ms`)), limitMs)
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
