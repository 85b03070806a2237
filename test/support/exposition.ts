/** What Prometheus would read: names with their kinds, and each series with its value. */
export interface Exposition {
  kinds: Map<string, string>
  /** By name and labels, as in `jobs_failed_total{error_code="X",type="t"}`; labels in the order of the alphabet. */
  series: Map<string, number>
  value(name: string, labels?: Record<string, string>): number | undefined
  /** The series of a name, by their labels. */
  of(name: string): [Record<string, string>, number][]
}

const NAME = '[a-zA-Z_:][a-zA-Z0-9_:]*'
const TYPE_LINE = new RegExp(`^# TYPE (${NAME}) (counter|gauge|histogram|summary|untyped)$`)
const HELP_LINE = new RegExp(`^# HELP (${NAME}) .+$`)
const SERIES_LINE = new RegExp(`^(${NAME})(?:\\{(.*)\\})? (-?(?:[0-9.]+(?:[eE][+-]?[0-9]+)?)|\\+Inf|-Inf|NaN)$`)
const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\["\\n])*)"(?:,|$)/y

/** Reads the text format 0.0.4 by its grammar, and refuses what is not in it. */
export function readExposition(text: string): Exposition {
  if (!text.endsWith('\n')) throw new Error('the exposition does not end with a line feed')
  const kinds = new Map<string, string>()
  const series = new Map<string, number>()
  const all: { name: string; labels: Record<string, string>; value: number }[] = []
  for (const line of text.split('\n')) {
    if (line === '' || HELP_LINE.test(line)) continue
    const type = TYPE_LINE.exec(line)
    if (type !== null) {
      if (kinds.has(type[1] as string)) throw new Error(`${type[1]} is declared twice`)
      kinds.set(type[1] as string, type[2] as string)
      continue
    }
    const found = SERIES_LINE.exec(line)
    if (found === null) throw new Error(`not a line of the text format: ${line}`)
    const [, name = '', written = '', number = ''] = found
    const family = name.replace(/_(bucket|sum|count)$/, '')
    if (!kinds.has(name) && kinds.get(family) !== 'histogram') throw new Error(`${name} has no TYPE`)
    const labels = readLabels(written)
    const key = keyOf(name, labels)
    if (series.has(key)) throw new Error(`${key} is there twice`)
    const value = number === '+Inf' ? Number.POSITIVE_INFINITY : Number(number)
    series.set(key, value)
    all.push({ name, labels, value })
  }
  return {
    kinds,
    series,
    value: (name, labels = {}) => series.get(keyOf(name, labels)),
    of: (name) => all.filter((one) => one.name === name).map(({ labels, value }) => [labels, value]),
  }
}

function readLabels(written: string): Record<string, string> {
  const labels: Record<string, string> = {}
  for (let at = 0; at < written.length; at = LABEL.lastIndex) {
    LABEL.lastIndex = at
    const label = LABEL.exec(written)
    if (label === null) throw new Error(`not labels: ${written}`)
    labels[label[1] as string] = (label[2] as string).replace(/\\(["\\n])/g, (_, c: string) => (c === 'n' ? '\n' : c))
  }
  return labels
}

function keyOf(name: string, labels: Record<string, string>): string {
  const sorted = Object.entries(labels).toSorted(([a], [b]) => (a < b ? -1 : 1))
  return `${name}{${sorted.map(([label, value]) => `${label}=${JSON.stringify(value)}`).join(',')}}`
}
