import { oneLine } from '../../core/text/printable.ts'
import type { TableColumn } from '../../http/app-module.ts'
import type { Style, Terminal } from './terminal.ts'

export interface Column<Row> extends TableColumn<Row> {
  style?: (row: Row) => Style
  isNumber?: boolean
  /** May be truncated to this many characters on a narrow terminal. Without it, the column is never truncated. */
  charsMin?: number
}

const GAP = '  '

/** Aligned columns that fit the terminal. Nothing is cut where the output goes to a file or another program. */
export function columns<Row>(rows: readonly Row[], shape: readonly Column<Row>[], terminal: Terminal): string {
  const cells = rows.map((row) => shape.map((column) => oneLine(String(column.of(row) ?? '-'))))
  const widths = squeeze(
    shape.map(({ title }, i) => Math.max(title.length, ...cells.map((line) => (line[i] as string).length))),
    shape.map(({ charsMin }) => charsMin ?? null),
    terminal.columns,
  )
  const lay = (text: string, i: number): string => {
    const width = widths[i] as number
    const cut = text.length <= width ? text : `${text.slice(0, width - 1)}…`
    return shape[i]?.isNumber ? cut.padStart(width) : cut.padEnd(width)
  }
  const head = terminal.paint(
    'quiet',
    shape
      .map(({ title }, i) => lay(title, i))
      .join(GAP)
      .trimEnd(),
  )
  const lines = rows.map((row, r) => {
    const line = (cells[r] as string[]).map((text, i) => {
      const isLast = i === shape.length - 1
      const laid = isLast ? lay(text, i).trimEnd() : lay(text, i)
      return terminal.paint(shape[i]?.style?.(row) ?? 'plain', laid)
    })
    return line.join(GAP).trimEnd()
  })
  return `${[head, ...lines].join('\n')}\n`
}

/** Shrinks the flexible columns until the table fits, the widest first. */
function squeeze(widths: number[], least: readonly (number | null)[], columnsMax: number | null): number[] {
  if (columnsMax === null) return widths
  const fitted = [...widths]
  const total = () => fitted.reduce((sum, width) => sum + width, GAP.length * (fitted.length - 1))
  while (total() > columnsMax) {
    const spare = fitted.map((width, i) => width - (least[i] ?? width))
    const widest = spare.indexOf(Math.max(...spare))
    if ((spare[widest] ?? 0) <= 0) break
    fitted[widest] = (fitted[widest] as number) - 1
  }
  return fitted
}

/** `name  value` lines. */
export function facts(pairs: readonly (readonly [string, string | number | null])[], terminal: Terminal): string {
  const width = Math.max(...pairs.map(([name]) => name.length))
  return pairs
    .filter(([, value]) => value !== null && value !== '')
    .map(([name, value]) => `${terminal.paint('quiet', name.padEnd(width))}${GAP}${oneLine(String(value))}\n`)
    .join('')
}
