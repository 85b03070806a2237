export const textOf = (data: object | null): string | null => (data === null ? null : JSON.stringify(data))

/** PostgreSQL's text holds every character but one. */
export const printable = (text: string): string => text.replaceAll('\0', '\ufffd')

/** Of an address: what stands behind its question mark. */
export const queryOf = (url: string): string => /\?([^#]*)/.exec(url)?.[1] ?? ''

/** The value of a parameter of an address; null where it has none. */
export const parameterOf = (url: string, name: string): string | null => new URLSearchParams(queryOf(url)).get(name)
