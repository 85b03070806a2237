import type { ComponentChildren } from 'preact'

export interface Column<Row> {
  head: string
  cell: (row: Row) => ComponentChildren
  /** Right-aligned, with figures of one width. */
  isNumber?: boolean
  /** On a phone it leads the card that a row becomes. */
  isTitle?: boolean
}

interface Props<Row> {
  /** What the table is about, for those who do not see it. */
  label: string
  columns: readonly Column<Row>[]
  rows: readonly Row[]
  keyOf: (row: Row) => string
  /** Which row the keyboard stands on; -1 for none. */
  current?: number
}

/** A table; on a phone each row is a card, with the names of the columns before their values. */
export function Table<Row>({ label, columns, rows, keyOf, current = -1 }: Props<Row>) {
  return (
    // On a phone the parts are no table to the browser any more; their roles stay.
    <table class="rows" role="table">
      <caption class="unseen">{label}</caption>
      <thead role="rowgroup">
        <tr role="row">
          {columns.map(({ head, isNumber }) => (
            <th key={head} role="columnheader" scope="col" class={isNumber ? 'number' : undefined}>
              {head}
            </th>
          ))}
        </tr>
      </thead>
      <tbody role="rowgroup">
        {rows.map((row, at) => (
          <tr key={keyOf(row)} role="row" data-row={keyOf(row)} class={at === current ? 'current' : undefined}>
            {columns.map(({ head, cell, isNumber, isTitle }) => (
              <td
                key={head}
                role="cell"
                data-head={head}
                class={`${isNumber ? 'number' : ''} ${isTitle ? 'title' : ''}`}
              >
                <div class="cell">{cell(row)}</div>
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  )
}
