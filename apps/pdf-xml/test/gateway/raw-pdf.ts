import { deflateSync } from 'node:zlib'

/** Writes PDFs byte by byte: what a library would not write is what a gateway has to stand. */
export class RawPdf {
  readonly #objects: Buffer[] = []

  add(body: string | Buffer): number {
    return this.#objects.push(Buffer.from(body))
  }

  /** A number for an object that refers to others which refer to it. */
  reserve(): number {
    return this.add('null')
  }

  set(number: number, body: string): void {
    this.#objects[number - 1] = Buffer.from(body)
  }

  stream(data: string | Buffer, dictionary = ''): number {
    const bytes = Buffer.from(data)
    const head = `<< ${dictionary} /Length ${bytes.length} >>\nstream\n`
    return this.add(Buffer.concat([Buffer.from(head), bytes, Buffer.from('\nendstream')]))
  }

  packed(data: string | Buffer, dictionary = ''): number {
    return this.stream(deflateSync(data), `${dictionary} /Filter /FlateDecode`)
  }

  build(root: number, { version = '1.7', trailer = '' } = {}): Buffer {
    const parts: Buffer[] = [Buffer.from(`%PDF-${version}\n%\xE2\xE3\xCF\xD3\n`, 'latin1')]
    const offsets: number[] = []
    let at = parts[0]?.length ?? 0
    const push = (part: Buffer) => {
      parts.push(part)
      at += part.length
    }
    for (const [i, body] of this.#objects.entries()) {
      offsets.push(at)
      push(Buffer.concat([Buffer.from(`${i + 1} 0 obj\n`), body, Buffer.from('\nendobj\n')]))
    }
    const start = at
    const rows = offsets.map((offset) => `${String(offset).padStart(10, '0')} 00000 n \n`).join('')
    const size = offsets.length + 1
    push(Buffer.from(`xref\n0 ${size}\n0000000000 65535 f \n${rows}`))
    push(Buffer.from(`trailer\n<< /Size ${size} /Root ${root} 0 R ${trailer} >>\nstartxref\n${start}\n%%EOF\n`))
    return Buffer.concat(parts)
  }
}

export interface RawPage {
  content: string
  size?: readonly [width: number, height: number]
  rotate?: number
}

interface RawOptions {
  /** Adds what the pages refer to; answers with more entries of their fonts: '/F2 9 0 R'. */
  fonts?: (pdf: RawPdf) => string
  /** The same for forms: '/Fm1 9 0 R'. */
  forms?: (pdf: RawPdf) => string
  catalog?: string
  version?: string
  info?: string
}

/** /F1 is Helvetica, with /fi and /fl as \001 and \002. */
export function rawPdf(pages: readonly RawPage[], options: RawOptions = {}): Buffer {
  const pdf = new RawPdf()
  const tree = pdf.reserve()
  const helvetica = pdf.add(
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding << /BaseEncoding /WinAnsiEncoding /Differences [1 /fi /fl /bullet] >> >>',
  )
  const fonts = options.fonts?.(pdf) ?? ''
  const forms = options.forms?.(pdf) ?? ''
  const kids = pages.map(({ content, size = [595, 842], rotate = 0 }) => {
    const stream = pdf.packed(content)
    return pdf.add(
      `<< /Type /Page /Parent ${tree} 0 R /MediaBox [0 0 ${size[0]} ${size[1]}] /Rotate ${rotate} /Contents ${stream} 0 R
      /Resources << /Font << /F1 ${helvetica} 0 R ${fonts} >> /XObject << ${forms} >> >> >>`,
    )
  })
  pdf.set(tree, `<< /Type /Pages /Kids [${kids.map((kid) => `${kid} 0 R`).join(' ')}] /Count ${kids.length} >>`)
  const root = pdf.add(`<< /Type /Catalog /Pages ${tree} 0 R ${options.catalog ?? ''} >>`)
  const info = options.info === undefined ? '' : `/Info ${pdf.add(`<< ${options.info} >>`)} 0 R`
  return pdf.build(root, { version: options.version ?? '1.7', trailer: info })
}

interface LinesOptions {
  x?: number
  y?: number
  size?: number
  leading?: number
  font?: string
}

/** Lines of text, the first one at y, counted from below as PDF does. */
export function lines(
  texts: readonly string[],
  { x = 50, y = 780, size = 10, leading = size * 1.2, font = 'F1' }: LinesOptions = {},
): string {
  return texts
    .map((text, i) => `BT /${font} ${size} Tf 1 0 0 1 ${x} ${y - i * leading} Tm ${literal(text)} Tj ET\n`)
    .join('')
}

const literal = (text: string): string => `(${text.replaceAll(/[\\()]/g, '\\$&')})`
export const hex = (codes: readonly number[]): string =>
  `<${codes.map((code) => code.toString(16).padStart(4, '0')).join('')}>`
