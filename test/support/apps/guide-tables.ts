import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'

/** The tables of a guide of `docs/guides/systems`, for those who hold it to what the app does. */
export class GuideTables {
  readonly #text: string

  constructor(name: string) {
    this.#text = readFileSync(join(import.meta.dirname, '../../../docs/guides/systems', name), 'utf8')
  }

  /** The cells of each line of the table that begins with this heading. */
  rows(heading: string): string[][] {
    const [, after = ''] = this.#text.split(`| ${heading} |`)
    const [table = ''] = after.split('\n\n')
    return [...table.matchAll(/^\| `.*$/gm)].map(([line]) =>
      line.split('|').map((cell) => cell.trim().replaceAll('`', '')),
    )
  }

  /** A line for each knob, and for those that all apps have; gives the defaults that are numbers, as they are told. */
  expectKnobs(names: readonly string[], others: readonly string[]): Record<string, string> {
    const rows = this.rows('variable')
    expect(rows.map(([, name]) => name).toSorted()).toEqual([...names, ...others].toSorted())
    return Object.fromEntries(
      rows.flatMap(([, name = '', value = '']) => (names.includes(name) && /^\d/.test(value) ? [[name, value]] : [])),
    )
  }
}
