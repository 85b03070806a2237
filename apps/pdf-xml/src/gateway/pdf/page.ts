import type { PDFDocumentProxy, PDFPageProxy } from 'pdfjs-dist/legacy/build/pdf.mjs'
import { type Fonts, looksLikeGlyphNumbers } from './fonts.ts'
import { unreadable } from './open.ts'
import { type Frame, wordsOf } from './words.ts'

export interface PageView {
  number: number
  /** As it is looked at, in points. */
  width: number
  height: number
  rotation: number
  /** The direction in which most of the text runs comes first. */
  frames: readonly Frame[]
  wordCount: number
}

/** Undefined when this page is damaged; the others may not be. */
export async function readPage(
  pdf: PDFDocumentProxy,
  number: number,
  fonts: Fonts,
  isMeasured: boolean,
): Promise<PageView | undefined> {
  try {
    const page = await pdf.getPage(number)
    const view = await viewOf(page, fonts, isMeasured)
    page.cleanup()
    return view
  } catch (error) {
    // A lack of memory is no damage: the next page would have the same.
    if (unreadable(error).code === 'MEMORY') throw error
    return undefined
  }
}

async function viewOf(page: PDFPageProxy, fonts: Fonts, isMeasured: boolean): Promise<PageView> {
  let { frames, chars } = await wordsOf(page, fonts)
  const asked = [...chars].filter(([id, own]) => (isMeasured ? !fonts.knows(id, own) : looksLikeGlyphNumbers(own)))
  if (asked.length > 0) {
    await fonts.learn(page, new Map(asked))
    frames = (await wordsOf(page, fonts)).frames
  }
  const { width, height } = page.getViewport({ scale: 1 })
  return {
    number: page.pageNumber,
    width,
    height,
    rotation: page.rotate,
    frames,
    wordCount: frames.reduce((sum, { words }) => sum + words.length, 0),
  }
}
