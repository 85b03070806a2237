/** A value as the filter line of the jobs takes it. */
const asValue = (value: string): string =>
  /^[^\s"]+$/.test(value) ? value : `"${value.replaceAll(/["\\]/g, (char) => `\\${char}`)}"`

/** The address of the jobs that a filter finds: `{ status: 'failed', type: 'pdf.convert' }`. */
export function jobsHref(filter: Readonly<Record<string, string | null | undefined>>): string {
  const words = Object.entries(filter).flatMap(([name, value]) => (value ? [`${name}:${asValue(value)}`] : []))
  return words.length === 0 ? '/jobs' : `/jobs?q=${encodeURIComponent(words.join(' '))}`
}

export const jobHref = (id: string): string => `/jobs/${encodeURIComponent(id)}`
export const groupHref = (fingerprint: string): string => `/failures/${encodeURIComponent(fingerprint)}`
export const policyHref = (type: string): string => `/policies/${encodeURIComponent(type)}`

/** The address of a page with what is set; what is empty is left out. */
export function addressOf(path: string, set: Readonly<Record<string, string | number | undefined>>): string {
  const given = Object.entries(set).filter(([, value]) => value !== undefined && value !== '')
  const query = String(new URLSearchParams(given.map(([name, value]): [string, string] => [name, String(value)])))
  return query === '' ? path : `${path}?${query}`
}

/** The address of the jobs that a line finds, from a place on. */
export const listHref = (line: string, cursor?: string): string =>
  addressOf('/jobs', { q: line, ...(cursor !== undefined && { cursor }) })
