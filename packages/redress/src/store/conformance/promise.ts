import type { Bench } from './bench/bench.ts'

/** One thing that every store promises: a sentence, and how to find out. */
export interface StorePromise {
  readonly topic: string
  readonly name: string
  run(bench: Bench): Promise<void>
}

/** The promises about one subject. */
export function topic(name: string, promises: Record<string, StorePromise['run']>): readonly StorePromise[] {
  return Object.entries(promises).map(([sentence, run]) => ({ topic: name, name: sentence, run }))
}
