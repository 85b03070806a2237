/** The address of a page with what is set; what is empty is left out. */
export function addressOf(path: string, set: Readonly<Record<string, string | number | undefined>>): string {
  const given = Object.entries(set).filter(([, value]) => value !== undefined && value !== '')
  const query = String(new URLSearchParams(given.map(([name, value]): [string, string] => [name, String(value)])))
  return query === '' ? path : `${path}?${query}`
}
