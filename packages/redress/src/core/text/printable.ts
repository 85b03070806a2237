/**
 * Stored text comes from thrown errors and from people. In a terminal its control characters would be orders: they
 * could hide the line above or colour everything below. Line breaks are kept.
 */
export function printable(text: string): string {
  return text.replace(ESCAPE_SEQUENCE, '').replaceAll('\r\n', '\n').replaceAll('\t', '  ').replace(CONTROL, '�')
}

/** Colour sequences are removed; every other control character is shown as a mark. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what this is about
const ESCAPE_SEQUENCE = /\u001b\[[0-9;:?]*[A-Za-z]/g
// Also the marks that reverse the direction of writing: with them a text reads as another one.
const CONTROL = /[^\P{Cc}\n]|[\u202a-\u202e\u2066-\u2069]/gu

/** The same on one line. */
export function oneLine(text: string): string {
  return printable(text).replace(/\s+/g, ' ').trim()
}
