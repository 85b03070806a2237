import type { PDFPageProxy } from 'pdfjs-dist/legacy/build/pdf.mjs'

/** Numbers of pdf.js's operators. */
const OPS = { save: 10, restore: 11, setFont: 37, showText: 44, beginForm: 74, endForm: 75 } as const

interface Glyph {
  originalCharCode: number
  unicode: string
  width: number
}

interface FontData {
  name?: string
  composite?: boolean
  missingFile?: boolean
}

export interface Font {
  /** 'DejaVuSans-Bold'; a document need not say. */
  name: string | undefined
  /** Its codes are numbers of glyphs, which pdf.js hands on as if they were characters. */
  isUnreadable: boolean
  /** In thousandths of the size, by character. */
  widths: ReadonlyMap<string, number>
}

interface LearntFont extends Font {
  widths: Map<string, number>
  data: FontData | undefined
  codes: Map<number, string>
}

/** In thousandths of the size, where nothing better is known. */
const SPACE = 280
export const OTHER = 500

const UNKNOWN: Font = { name: undefined, isUnreadable: false, widths: new Map() }

/** Facts about fonts that the text content of pdf.js lacks. They come from the list of drawing operators. */
export class Fonts {
  readonly #fonts = new Map<string, LearntFont>()

  of(id: string): Font {
    return this.#fonts.get(id) ?? UNKNOWN
  }

  /** Whether the widths of these characters are already known: the pages of a document use the same fonts. */
  knows(id: string, chars: ReadonlySet<string>): boolean {
    const { widths } = this.of(id)
    for (const char of chars) if (!widths.has(char)) return false
    return true
  }

  /** The list is long where a page is full of drawings: it is asked for only where something depends on it. */
  async learn(page: PDFPageProxy, used: ReadonlyMap<string, ReadonlySet<string>>): Promise<void> {
    const { fnArray, argsArray } = await page.getOperatorList()
    const stack: (LearntFont | undefined)[] = []
    let current: LearntFont | undefined
    for (let i = 0; i < fnArray.length; i++) {
      const args = argsArray[i] as unknown[] | null
      switch (fnArray[i]) {
        case OPS.save:
        case OPS.beginForm:
          stack.push(current)
          break
        case OPS.restore:
        case OPS.endForm:
          current = stack.pop() ?? current
          break
        case OPS.setFont:
          current = this.#font(page, String(args?.[0]))
          break
        case OPS.showText:
          if (current !== undefined && Array.isArray(args?.[0])) note(current, args[0])
          break
      }
    }
    for (const [id, chars] of used) {
      const font = this.#font(page, id)
      font.isUnreadable = hasGlyphNumbers(font)
      // Spaces are often not drawn, and of a ligature's letters no glyph is their own.
      for (const char of chars) if (!font.widths.has(char)) font.widths.set(char, char === ' ' ? SPACE : OTHER)
    }
  }

  #font(page: PDFPageProxy, id: string): LearntFont {
    const known = this.#fonts.get(id)
    if (known !== undefined) return known
    const data = page.commonObjs.has(id) ? (page.commonObjs.get(id) as FontData | null) : null
    const font: LearntFont = {
      name: data?.name === undefined || data.name === '' ? undefined : withoutSubsetTag(data.name),
      isUnreadable: false,
      widths: new Map(),
      data: data ?? undefined,
      codes: new Map(),
    }
    this.#fonts.set(id, font)
    return font
  }
}

function note(font: LearntFont, glyphs: readonly unknown[]): void {
  for (const glyph of glyphs as (Glyph | number | null)[]) {
    if (glyph === null || typeof glyph !== 'object') continue
    if (font.widths.has(glyph.unicode)) continue
    font.widths.set(glyph.unicode, glyph.width)
    font.codes.set(glyph.originalCharCode, glyph.unicode)
  }
}

/** 'ABCDEF+Name': the six letters only say that not the whole font is embedded. */
const withoutSubsetTag = (name: string): string => name.replace(/^[A-Z]{6}\+/, '')

/**
 * Detects a font with two-byte codes and without a map to Unicode: pdf.js takes the codes for characters. Some
 * producers number their glyphs by Unicode. To tell the two apart: real text has no control characters and is not
 * mostly punctuation.
 */
function hasGlyphNumbers({ data, codes }: LearntFont): boolean {
  if (!data?.composite || data.missingFile || codes.size === 0) return false
  const pairs = [...codes]
  if (!pairs.every(([code, unicode]) => unicode === String.fromCharCode(code))) return false
  return looksLikeGlyphNumbers(new Set(codes.values()))
}

/** True of characters that are worth asking their font about. */
export function looksLikeGlyphNumbers(chars: ReadonlySet<string>): boolean {
  const text = [...chars].join('')
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what gives such a text away
  if (/[\u0000-\u0008\u000e-\u001f]/.test(text)) return true
  const marks = text.match(/[!-/:-@[-`{-~]/g)?.length ?? 0
  return marks / chars.size > 0.25
}
