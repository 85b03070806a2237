/**
 * A step that many want at once on the same thing is done once for all of them. Nobody is answered by one that began
 * before he asked: what he did until then might not be part of it.
 */
export class SharedSteps<T> {
  readonly #step: (name: string) => Promise<T>
  readonly #lines = new Map<string, { next: Promise<T> | null; running: Promise<T> }>()

  constructor(step: (name: string) => Promise<T>) {
    this.#step = step
  }

  run(name: string): Promise<T> {
    const line = this.#lines.get(name)
    if (line === undefined) return this.#begin(name)
    const begin = () => this.#begin(name)
    line.next ??= line.running.then(begin, begin)
    return line.next
  }

  #begin(name: string): Promise<T> {
    const line = { next: null as Promise<T> | null, running: this.#step(name) }
    this.#lines.set(name, line)
    const end = () => {
      // Whoever waits begins the next one in the same moment.
      if (line.next === null) this.#lines.delete(name)
    }
    line.running.then(end, end)
    return line.running
  }
}
