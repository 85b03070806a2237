export const textOf = (data: object | null): string | null => (data === null ? null : JSON.stringify(data))

/** PostgreSQL's text holds every character but one. */
export const printable = (text: string): string => text.replaceAll('\0', '\ufffd')

/** The query string of an address. */
export const queryOf = (url: string): string => /\?([^#]*)/.exec(url)?.[1] ?? ''

/** The value of a query parameter of an address; null if it is missing. */
export const parameterOf = (url: string, name: string): string | null => new URLSearchParams(queryOf(url)).get(name)
