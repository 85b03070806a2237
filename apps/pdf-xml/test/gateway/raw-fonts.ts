import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { deflateSync } from 'node:zlib'
import type { RawPdf } from './raw-pdf.ts'

const DEJAVU = readFileSync(createRequire(import.meta.url).resolve('dejavu-fonts-ttf/ttf/DejaVuSans.ttf'))
let packed: Buffer | undefined

/** Which glyph of DejaVu Sans shows a character: its table of characters, in the format that it has (4). */
export function glyphOf(char: string): number {
  const code = char.codePointAt(0) ?? 0
  const cmap = tableAt('cmap')
  const count = DEJAVU.readUInt16BE(cmap + 2)
  for (let i = 0; i < count; i++) {
    const at = cmap + DEJAVU.readUInt32BE(cmap + 4 + i * 8 + 4)
    if (DEJAVU.readUInt16BE(at) !== 4) continue
    const doubled = DEJAVU.readUInt16BE(at + 6)
    for (let segment = 0; segment < doubled; segment += 2) {
      if (DEJAVU.readUInt16BE(at + 14 + segment) < code) continue
      const start = DEJAVU.readUInt16BE(at + 16 + doubled + segment)
      if (start > code) return 0
      const delta = DEJAVU.readUInt16BE(at + 16 + 2 * doubled + segment)
      const place = at + 16 + 3 * doubled + segment
      const range = DEJAVU.readUInt16BE(place)
      if (range === 0) return (code + delta) & 0xffff
      return (DEJAVU.readUInt16BE(place + range + 2 * (code - start)) + delta) & 0xffff
    }
  }
  return 0
}

function widthOf(glyph: number): number {
  const metrics = DEJAVU.readUInt16BE(tableAt('hhea') + 34)
  const advance = DEJAVU.readUInt16BE(tableAt('hmtx') + 4 * Math.min(glyph, metrics - 1))
  return Math.round((advance * 1000) / DEJAVU.readUInt16BE(tableAt('head') + 18))
}

function tableAt(tag: string): number {
  const count = DEJAVU.readUInt16BE(4)
  for (let i = 0; i < count; i++) {
    const at = 12 + i * 16
    if (DEJAVU.toString('latin1', at, at + 4) === tag) return DEJAVU.readUInt32BE(at + 8)
  }
  throw new Error(`the font has no table ${tag}`)
}

/** DejaVu Sans with two-byte codes, which are numbers of glyphs; `meanings` is what its map to Unicode says, if it has one. */
export function dejaVu(pdf: RawPdf, chars: string, meanings?: ReadonlyMap<number, string>): number {
  packed ??= deflateSync(DEJAVU, { level: 1 })
  const file = pdf.stream(packed, `/Filter /FlateDecode /Length1 ${DEJAVU.length}`)
  const descriptor = pdf.add(
    `<< /Type /FontDescriptor /FontName /ABCDEF+DejaVuSans /Flags 4 /FontBBox [-1000 -300 2000 1000] /ItalicAngle 0
    /Ascent 928 /Descent -236 /CapHeight 729 /StemV 80 /FontFile2 ${file} 0 R >>`,
  )
  const widths = [...new Set(chars)].map((char) => `${glyphOf(char)} [${widthOf(glyphOf(char))}]`).join(' ')
  const descendant = pdf.add(
    `<< /Type /Font /Subtype /CIDFontType2 /BaseFont /ABCDEF+DejaVuSans /FontDescriptor ${descriptor} 0 R /W [${widths}]
    /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> /CIDToGIDMap /Identity >>`,
  )
  const toUnicode = meanings === undefined ? '' : `/ToUnicode ${pdf.packed(toUnicodeMap(meanings))} 0 R`
  return pdf.add(
    `<< /Type /Font /Subtype /Type0 /BaseFont /ABCDEF+DejaVuSans /Encoding /Identity-H
    /DescendantFonts [${descendant} 0 R] ${toUnicode} >>`,
  )
}

/** What each glyph of these characters means: the character. */
export const ownMeanings = (chars: string): Map<number, string> =>
  new Map([...chars].map((char) => [glyphOf(char), char] as const))

function toUnicodeMap(meanings: ReadonlyMap<number, string>): string {
  const rows = [...meanings].map(([code, text]) => {
    const units = [...Array(text.length).keys()].map((i) => text.charCodeAt(i).toString(16).padStart(4, '0'))
    return `<${code.toString(16).padStart(4, '0')}> <${units.join('')}>`
  })
  return `/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapType 2 def
1 begincodespacerange <0000> <FFFF> endcodespacerange
${rows.length} beginbfchar\n${rows.join('\n')}\nendbfchar endcmap end end`
}

/** A Chinese or Japanese font that the document only names, with a map that readers are expected to know. */
export function namedFont(pdf: RawPdf, encoding: string, ordering: string): number {
  const descendant = pdf.add(
    `<< /Type /Font /Subtype /CIDFontType0 /BaseFont /Somewhere /DW 1000
    /CIDSystemInfo << /Registry (Adobe) /Ordering (${ordering}) /Supplement 2 >>
    /FontDescriptor << /Type /FontDescriptor /FontName /Somewhere /Flags 4 /FontBBox [0 -200 1000 900] /ItalicAngle 0
    /Ascent 900 /Descent -200 /CapHeight 700 /StemV 80 >> >>`,
  )
  return pdf.add(
    `<< /Type /Font /Subtype /Type0 /BaseFont /Somewhere-${encoding} /Encoding /${encoding}
    /DescendantFonts [${descendant} 0 R] >>`,
  )
}
