/** A spreadsheet would take such a cell for a formula, and what a job says is anybody's text. */
const FORMULA = /^[=+\-@\t\r]/

function cell(value: string | number | null): string {
  const said = String(value ?? '')
  const text = typeof value === 'string' && FORMULA.test(said) ? `'${said}` : said
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/** Comma-separated values as RFC 4180 has them, with the names of the columns first. */
export function csvOf<Row extends Readonly<Record<string, string | number | null>>>(
  columns: readonly (keyof Row & string)[],
  rows: readonly Row[],
): string {
  const lines = [columns.map(cell), ...rows.map((row) => columns.map((column) => cell(row[column] ?? null)))]
  return lines.map((line) => `${line.join(',')}\r\n`).join('')
}
