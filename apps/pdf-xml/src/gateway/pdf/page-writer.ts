import { type Block, blocksOf, blockText, wholeWords } from './blocks.ts'
import type { Fonts } from './fonts.ts'
import type { PageView } from './open.ts'
import { least, most } from './rows.ts'
import { type Box, boxOnPage, type Frame } from './words.ts'
import { Losses, points, type XmlFile } from './xml.ts'

// The page's start tag counts its lost characters, so all text is cleaned before the page is written.
type Write = (xml: XmlFile) => void

export function writeText(page: PageView, losses: Losses): Write {
  const paragraphs = page.frames
    .flatMap(({ words }) => blocksOf(words))
    .map((block) => ({ text: losses.clean(blockText(block)), dir: block.isRtl ? 'rtl' : undefined }))
  return (xml) => {
    for (const { text, dir } of paragraphs) xml.element('paragraph', text, { dir })
  }
}

export function writeLayout(page: PageView, table: FontTable, losses: Losses): Write {
  const blocks = page.frames.flatMap((frame) =>
    blocksOf(frame.words).map((block) => ({
      box: boxAround(frame, block.lines),
      dir: block.isRtl ? 'rtl' : undefined,
      lines: block.lines.map((line) => ({
        box: boxOnPage(frame, { ...line, width: line.right - line.x }),
        words: wholeWords(line).map((word) => ({
          ...word,
          text: losses.clean(word.text),
          box: boxOnPage(frame, word),
        })),
      })),
    })),
  )
  return (xml) => {
    for (const { box, dir, lines } of blocks) {
      xml.begin('block', { ...rounded(box), dir })
      for (const line of lines) {
        xml.begin('line', rounded(line.box))
        for (const { text, box, font, size } of line.words) {
          xml.element('word', text, { ...rounded(box), font: table.ref(font), size: points(size) })
        }
        xml.end()
      }
      xml.end()
    }
  }
}

function boxAround(frame: Frame, lines: Block['lines']): Box {
  const x = least(lines, (line) => line.x)
  return boxOnPage(frame, {
    x,
    width: most(lines, ({ right }) => right) - x,
    top: least(lines, ({ top }) => top),
    bottom: most(lines, ({ bottom }) => bottom),
  })
}

const rounded = ({ x, y, width, height }: Box): Record<keyof Box, number> => ({
  x: points(x),
  y: points(y),
  width: points(width),
  height: points(height),
})

/** Each font is written once per document; words refer to it. */
export class FontTable {
  readonly #ids = new Map<string, string>()
  readonly #names = new Map<string, string | undefined>()
  readonly #fonts: Fonts

  constructor(fonts: Fonts) {
    this.#fonts = fonts
  }

  /** Parts of one font that are embedded several times are one font. */
  ref(font: string): string {
    const { name } = this.#fonts.of(font)
    const key = name === undefined ? `\n${font}` : name
    const known = this.#ids.get(key)
    if (known !== undefined) return known
    const id = `f${this.#ids.size + 1}`
    this.#ids.set(key, id)
    this.#names.set(id, name)
    return id
  }

  write(xml: XmlFile): void {
    const losses = new Losses()
    xml.begin('fonts')
    for (const [id, name] of this.#names) {
      const clean = name === undefined ? undefined : losses.clean(name)
      xml.element('font', '', { id, name: clean, family: clean === undefined ? undefined : familyOf(clean) })
    }
    xml.end()
  }
}

/** 'DejaVuSans-BoldOblique' and 'Arial,Bold' are of the families 'DejaVuSans' and 'Arial'. */
const familyOf = (name: string): string => /^[^-,]+/.exec(name)?.[0] ?? name
