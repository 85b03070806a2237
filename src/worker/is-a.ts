/** Anything can be thrown, also a proxy whose every trap throws: then `instanceof` itself would. */
export function isA<T>(thrown: unknown, type: abstract new (...args: never[]) => T): thrown is T {
  try {
    return thrown instanceof type
  } catch {
    return false
  }
}
