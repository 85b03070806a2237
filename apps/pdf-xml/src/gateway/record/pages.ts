import { readFromRight, wholeWords } from '../pdf/blocks.ts'
import type { PageView } from '../pdf/open.ts'
import { isRtlSegment, least, most, rowsOf, segmentsOf } from '../pdf/rows.ts'
import { type Box, boxOnPage } from '../pdf/words.ts'

export interface RecordWord {
  text: string
  x: number
  right: number
  box: Box
}

/** Adjacent words: a label with its value, or a cell of a table. */
export interface Cell {
  words: readonly RecordWord[]
  x: number
  right: number
  top: number
  bottom: number
}

export interface Row {
  cells: readonly Cell[]
  top: number
  bottom: number
}

export interface RecordPage {
  number: number
  rows: readonly Row[]
}

export const cellText = ({ words }: Cell): string => words.map(({ text }) => text).join(' ')
export const rowText = ({ cells }: Row): string => cells.map(cellText).join(' ')

/** Fields are found by their neighbours to the right and below, independent of the columns of the page. */
export class RecordPages {
  readonly pages: RecordPage[] = []

  add(page: PageView): void {
    const rows = page.frames.flatMap((frame) =>
      rowsOf(segmentsOf(frame.words)).map((segments): Row => {
        const cells = segments.map((segment): Cell => {
          const isRtl = isRtlSegment(segment)
          const words = wholeWords({ words: isRtl ? readFromRight(segment.words) : segment.words, isRtl })
          return {
            words: words.map((word) => ({
              text: word.text,
              x: word.x,
              right: word.x + word.width,
              box: boxOnPage(frame, word),
            })),
            x: segment.x,
            right: segment.right,
            top: segment.top,
            bottom: segment.bottom,
          }
        })
        return {
          cells,
          top: least(segments, ({ top }) => top),
          bottom: most(segments, ({ bottom }) => bottom),
        }
      }),
    )
    this.pages.push({ number: page.number, rows })
  }
}
