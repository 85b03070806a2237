export interface Limit {
  ms: number
  signal: AbortSignal
}

/**
 * Does a step in its time, or until the signal. What comes too late is dropped: a connection that nobody waits for any
 * more must not stay open.
 */
export function within<T>(
  { ms, signal }: Limit,
  late: () => Error,
  begin: (signal: AbortSignal) => Promise<T>,
  drop: (value: T) => void = () => undefined,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const stop = new AbortController()
    const timer = setTimeout(() => end(late()), Math.max(ms, 0))
    const onAbort = () => end(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    const settle = (): boolean => {
      if (stop.signal.aborted) return false
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
      return true
    }
    const end = (error: unknown): void => {
      if (!settle()) return
      stop.abort(error)
      reject(error)
    }
    if (signal.aborted) return onAbort()
    begin(stop.signal).then((value) => (settle() ? resolve(value) : drop(value)), end)
  })
}
