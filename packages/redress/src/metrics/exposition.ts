import { Counter, Gauge, Histogram, Registry } from 'prom-client'

export type { Registry }

type Labels = Readonly<Record<string, string>>

export interface Sample {
  labels: Labels
  value: number
}

/** How often something took at most so long; `counts` has one more entry than `bounds`, for what took longer. */
export interface Distribution {
  labels: Labels
  bounds: readonly number[]
  counts: readonly number[]
  sum: number
}

/** Metrics of one name. Their values are read when Prometheus scrapes. */
export type Family = { name: string; help: string; labels: readonly string[] } & (
  | { kind: 'counter' | 'gauge'; read: () => readonly Sample[] }
  | { kind: 'histogram'; read: () => readonly Distribution[] }
)

/** Puts the families into a registry of their own: the process may have others, and prom-client has a global one. */
export function expositionOf(families: readonly Family[]): Registry {
  const registry = new Registry()
  for (const family of families) {
    const { name, help, labels } = family
    const shape = { name, help, labelNames: [...labels], registers: [registry] }
    if (family.kind === 'histogram') new CountedElsewhere(shape, family.read)
    else if (family.kind === 'gauge') {
      new Gauge({
        ...shape,
        collect() {
          this.reset()
          for (const { labels: of, value } of family.read()) this.set({ ...of }, value)
        },
      })
    } else {
      new Counter({
        ...shape,
        collect() {
          this.reset()
          for (const { labels: of, value } of family.read()) this.inc({ ...of }, value)
        },
      })
    }
  }
  return registry
}

/** A histogram with buckets that the tally fills: prom-client's own costs too much per job. */
class CountedElsewhere extends Histogram {
  readonly #shape: { name: string; help: string }
  readonly #read: () => readonly Distribution[]

  constructor(
    shape: { name: string; help: string; labelNames: string[]; registers: Registry[] },
    read: () => readonly Distribution[],
  ) {
    super(shape)
    this.#shape = shape
    this.#read = read
  }

  override async get() {
    const { name, help } = this.#shape
    const values = this.#read().flatMap((one) => seriesOf(name, one))
    return { name, help, type: 'histogram', values, aggregator: 'sum' } as never
  }

  /** The registry would ask for this one first. */
  getForPromString() {
    return this.get()
  }
}

function seriesOf(name: string, { labels, bounds, counts, sum }: Distribution) {
  let below = 0
  const buckets = counts.map((count, i) => {
    below += count
    const le = i < bounds.length ? String(bounds[i]) : '+Inf'
    return { metricName: `${name}_bucket`, labels: { ...labels, le }, value: below }
  })
  return [
    ...buckets,
    { metricName: `${name}_sum`, labels, value: sum },
    { metricName: `${name}_count`, labels, value: below },
  ]
}
