import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import type { PDFDocumentProxy, PDFPageProxy } from 'pdfjs-dist/legacy/build/pdf.mjs'
import { Refusal } from '../refusals.ts'
import { type Fonts, looksLikeGlyphNumbers } from './fonts.ts'
import { type Frame, wordsOf } from './words.ts'

// Drawing is never asked for, so these are never used; without them pdf.js says so on every start.
const undrawable = globalThis as unknown as Record<string, unknown>
undrawable.DOMMatrix ??= class {}
undrawable.Path2D ??= class {}

const { getDocument } = await import('pdfjs-dist/legacy/build/pdf.min.mjs')
// This process is the worker already: a thread in it would only make its memory harder to bound.
undrawable.pdfjsWorker = await import('pdfjs-dist/legacy/build/pdf.worker.min.mjs')

/** Character maps of Chinese, Japanese and Korean fonts that a document names without bringing them. */
const CMAPS = join(dirname(createRequire(import.meta.url).resolve('pdfjs-dist/package.json')), 'cmaps/')

/** A document that can be closed and opened again on the way. */
export class PdfFile {
  readonly #path: string
  #pdf: PDFDocumentProxy | undefined

  constructor(path: string) {
    this.#path = path
  }

  async open(): Promise<PDFDocumentProxy> {
    if (this.#pdf !== undefined) return this.#pdf
    const { buffer, byteOffset, byteLength } = readFileSync(this.#path)
    // No copy: of a large document that would be the most of what its process may have.
    this.#pdf = await openPdf(new Uint8Array(buffer, byteOffset, byteLength))
    return this.#pdf
  }

  async reopen(): Promise<PDFDocumentProxy> {
    await this.close()
    return this.open()
  }

  async close(): Promise<void> {
    const pdf = this.#pdf
    this.#pdf = undefined
    await pdf?.loadingTask.destroy()
  }
}

async function openPdf(bytes: Uint8Array): Promise<PDFDocumentProxy> {
  const task = getDocument({
    data: bytes,
    verbosity: 0,
    // Damaged parts are skipped; the rest of the document is read.
    stopAtErrors: false,
    cMapUrl: CMAPS,
    cMapPacked: true,
    useWorkerFetch: false,
    // Nothing is drawn: no fonts, no images (0 pixels is the limit), no decoders, no XFA forms. This version of
    // pdf.js does not generate code at run time, so it needs no option to forbid that.
    disableFontFace: true,
    useSystemFonts: false,
    maxImageSize: 0,
    isImageDecoderSupported: false,
    isOffscreenCanvasSupported: false,
    useWasm: false,
    enableXfa: false,
    // Names and widths of fonts, and the codes that glyphs had in the document.
    fontExtraProperties: true,
    disableAutoFetch: true,
    disableStream: true,
    disableRange: true,
  })
  try {
    return await task.promise
  } catch (error) {
    await task.destroy().catch(() => undefined)
    throw unreadable(error)
  }
}

export function unreadable(error: unknown): Refusal {
  if (error instanceof Refusal) return error
  const { name = '', message = '' } = error instanceof Error ? error : {}
  if (name === 'PasswordException') return new Refusal('ENCRYPTED', 'The PDF cannot be read without its password.')
  if (error instanceof RangeError && /allocation/i.test(message)) {
    return new Refusal('MEMORY', 'The PDF needs more memory than one document may have.', { cause: error })
  }
  return new Refusal('PARSE_ERROR', 'This is not a PDF, or it is damaged beyond repair.', { cause: error })
}

export interface PageView {
  number: number
  /** As displayed, in points. */
  width: number
  height: number
  rotation: number
  /** The direction in which most of the text runs comes first. */
  frames: readonly Frame[]
  wordCount: number
}

/** Undefined if this page is damaged; other pages may be readable. */
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
    // Out of memory is not a damaged page: the next page would fail as well.
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
