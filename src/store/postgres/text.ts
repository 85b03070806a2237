export const textOf = (data: object | null): string | null => (data === null ? null : JSON.stringify(data))

/** PostgreSQL's text holds every character but one. */
export const printable = (text: string): string => text.replaceAll('\0', '\ufffd')
