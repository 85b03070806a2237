/** Documents that must become XML. */
import { AFRelationship, PDFDocument, StandardFonts } from '@cantoo/pdf-lib'
import { dejaVu, glyphOf, namedFont, ownMeanings } from './raw-fonts.ts'
import { hex, lines, type RawPage, rawPdf } from './raw-pdf.ts'

/** A column of text whose lines begin with a mark, so that a test can tell where each went. */
const column = (mark: string, count: number): string[] =>
  Array.from({ length: count }, (_, i) => `${mark}${i + 1} lorem ipsum dolor sit amet`)

export const plain = (): Buffer => rawPdf([{ content: lines(['A plain page.', 'It has two lines.']) }])

export const paragraphs = (): Buffer =>
  rawPdf([
    {
      content: [
        lines(['A heading'], { y: 780, size: 20 }),
        lines(['The first paragraph has', 'two lines.'], { y: 740 }),
        lines(['The second stands apart', 'and has two, too.'], { y: 700 }),
        lines(['The third is indented'], { x: 62, y: 676 }),
        lines(['and goes on at the margin.'], { y: 664 }),
      ].join(''),
    },
  ])

export const twoColumns = (): Buffer =>
  rawPdf([
    {
      content: [
        lines(['A heading that goes across both of the columns below it'], { size: 18, y: 800 }),
        // Row by row, as some programs write: the order in the file must not matter.
        ...Array.from({ length: 20 }, (_, i) =>
          [
            lines([column('L', 20)[i] ?? ''], { y: 760 - i * 12 }),
            lines([column('R', 20)[i] ?? ''], { x: 310, y: 760 - i * 12 }),
          ].join(''),
        ),
        lines(['A footer that is centred below both of the columns of this page'], { x: 120, y: 60 }),
      ].join(''),
    },
  ])

/** As journals are set: a name and a number above the columns, another name below one of them. */
export const journal = (): Buffer =>
  rawPdf([
    {
      content: [
        lines(['Journal of Columns'], { y: 800 }),
        lines(['17'], { x: 500, y: 800 }),
        lines(column('L', 20), { y: 760 }),
        lines(column('R', 18), { x: 310, y: 760 }),
        lines(['May 2024'], { y: 60 }),
      ].join(''),
    },
  ])

export const lists = (): Buffer =>
  rawPdf([
    {
      content: [
        lines(['A list of two:', '\x03 the first of them', 'in two lines', '\x03 the second'], { y: 740 }),
        lines(['1. One', '2. Two'], { y: 640 }),
        lines(['It was in the year', '7. It ended.'], { y: 560 }),
      ].join(''),
    },
  ])

export const threeColumns = (): Buffer =>
  rawPdf([
    {
      content: [
        lines(['A heading that goes across all three of the columns below it'], { size: 16, y: 800 }),
        ...['A', 'B', 'C'].map((mark, i) => lines(column(mark, 15), { x: 40 + i * 180, y: 760 - i * 4 })),
      ].join(''),
    },
  ])

/** Turned by the page, and written so that it looks upright. */
export function rotated(degrees: 90 | 180 | 270): Buffer {
  const matrix = { 90: [0, 1, -1, 0, 595, 0], 180: [-1, 0, 0, -1, 595, 842], 270: [0, -1, 1, 0, 0, 842] }[degrees]
  const content = `q ${matrix.join(' ')} cm ${lines(['First line of the page', 'second line of it'], { x: 40, y: 400 })} Q`
  return rawPdf([{ content, rotate: degrees }])
}

/** Written sideways on a page that nobody turned. */
export const sideways = (): Buffer =>
  rawPdf([{ content: `q 0 1 -1 0 595 0 cm ${lines(['First line of the page', 'second line of it'], { y: 400 })} Q` }])

export const skewed = (): Buffer =>
  rawPdf([
    {
      content: `${lines(['Upright text of the page', 'in two lines'])} q 0.7071 0.7071 -0.7071 0.7071 200 300 cm ${lines(['DRAFT'], { x: 0, y: 0, size: 60 })} Q`,
    },
  ])

/** As it is printed: from the left end of the line, which is its last letter. */
function fromLeft(text: string): string {
  // Numbers are written from the left in these scripts, too.
  const turned = [...text]
    .toReversed()
    .join('')
    .replaceAll(/\d+/g, (digits) => [...digits].toReversed().join(''))
  return hex([...turned].map(glyphOf))
}

export function rightToLeft(texts: readonly string[]): Buffer {
  const chars = texts.join('')
  const content = texts
    .map((text, i) => `BT /F2 14 Tf 1 0 0 1 300 ${700 - i * 18} Tm ${fromLeft(text)} Tj ET\n`)
    .join('')
  return rawPdf([{ content }], { fonts: (pdf) => `/F2 ${dejaVu(pdf, chars, ownMeanings(chars))} 0 R` })
}

/** Glyphs that stand for whatever the map says, or for nothing when there is none. */
export function withMeanings(text: string, meanings?: ReadonlyMap<number, string>): Buffer {
  return rawPdf([{ content: `BT /F2 12 Tf 50 700 Td ${hex([...text].map(glyphOf))} Tj ET` }], {
    fonts: (pdf) => `/F2 ${dejaVu(pdf, text, meanings)} 0 R`,
  })
}

/** As some producers do: the codes are Unicode, and a map says so. */
export function numberedByUnicode(text: string): Buffer {
  const codes = [...text].map((char) => char.charCodeAt(0))
  const meanings = new Map(codes.map((code) => [code, String.fromCharCode(code)] as const))
  return rawPdf([{ content: `BT /F2 12 Tf 50 700 Td ${hex(codes)} Tj ET` }], {
    fonts: (pdf) => `/F2 ${dejaVu(pdf, text, meanings)} 0 R`,
  })
}

export const meaning = (char: string, text: string): [number, string] => [glyphOf(char), text]

export const ligatures = (): Buffer => rawPdf([{ content: lines(['of\x01ce and \x02ower']) }])

export const hyphenated = (): Buffer =>
  rawPdf([
    {
      content: lines([
        'Words at the end of lines are some-',
        'times divided, but names like Anna-',
        'Lena keep their hyphen.',
      ]),
    },
  ])

export const tokyo = (): Buffer =>
  rawPdf([{ content: 'BT /F2 12 Tf 50 700 Td <4F60597D4E16754C> Tj ET' }], {
    fonts: (pdf) => `/F2 ${namedFont(pdf, 'UniGB-UCS2-H', 'GB1')} 0 R`,
  })

/** Two columns of vertical writing; the right one is read first. */
export const vertical = (): Buffer =>
  rawPdf(
    [
      {
        content:
          'BT /F2 12 Tf 1 0 0 1 500 700 Tm <65E5672C8A9E> Tj ET BT /F2 12 Tf 1 0 0 1 470 700 Tm <6771 4EAC90FD> Tj ET',
      },
    ],
    { fonts: (pdf) => `/F2 ${namedFont(pdf, 'UniJIS-UCS2-V', 'Japan1')} 0 R` },
  )

export const fakeBold = (): Buffer =>
  rawPdf([
    {
      content: [
        lines(['Printed twice']),
        lines(['Printed twice'], { x: 50.4 }),
        lines(['Printed once'], { y: 740 }),
      ].join(''),
    },
  ])

export const tinyFont = (): Buffer =>
  rawPdf([
    {
      content: [lines(['Hardly to be seen'], { size: 0.2 }), lines(['Of no size at all'], { size: 0, y: 700 })].join(
        '',
      ),
    },
  ])

export const longWord = (): Buffer =>
  rawPdf([{ content: lines([`begin ${'abcdefghij'.repeat(3_000)} end`], { size: 0.01 }) }])

export const manyRuns = (count: number): Buffer => {
  const runs = Array.from(
    { length: count },
    (_, i) => `1 0 0 1 ${(i % 400) * 1.4} ${840 - Math.floor(i / 400) * 3} Tm (a) Tj`,
  )
  return rawPdf([{ content: `BT /F1 1 Tf ${runs.join('\n')} ET` }])
}

export const manyPages = (count: number): Buffer =>
  rawPdf(
    Array.from(
      { length: count },
      (_, i): RawPage => ({ content: lines([`Page ${i + 1} begins here.`, 'It goes on.']) }),
    ),
  )

export const secondVersion = (): Buffer =>
  rawPdf([{ content: lines(['PDF of the second version.']) }], { version: '2.0', info: '/Title <EFBBBFC3A9>' })

export const described = (): Buffer =>
  rawPdf([{ content: lines(['It describes itself.']) }], {
    info: `/Title (A \\001 title & more) /Author (Ann) /CreationDate (D:20240131120000+01'00') /ModDate (nonsense)`,
    catalog: '/Lang (de-DE)',
  })

/** The second half of the file says that the page is another one. */
export function updated(): Buffer {
  const first = rawPdf([{ content: lines(['The old text.']) }])
  const text = first.toString('latin1')
  const page = /(\d+) 0 obj\n<< \/Type \/Page .*?endobj/s.exec(text)
  const content = lines(['The new text.'])
  const size = Number(/\/Size (\d+)/.exec(text)?.[1])
  const start = /startxref\n(\d+)/.exec(text)?.[1]
  const newContent = `${size} 0 obj\n<< /Length ${content.length} >>\nstream\n${content}\nendstream\nendobj\n`
  const newPage = `${page?.[0].replace(/\/Contents \d+/, `/Contents ${size}`)}\n`
  const at = (offset: number) => `${String(first.length + offset).padStart(10, '0')} 00000 n \n`
  const xref = `xref\n${page?.[1]} 1\n${at(newContent.length)}${size} 1\n${at(0)}`
  const root = /\/Root \d+ 0 R/.exec(text)?.[0]
  const trailer = `trailer\n<< /Size ${size + 1} ${root} /Prev ${start} >>\nstartxref\n${first.length + newContent.length + newPage.length}\n%%EOF\n`
  return Buffer.concat([first, Buffer.from(newContent + newPage + xref + trailer, 'latin1')])
}

export function invoice({ number = 'INV-2024/017', total = 'EUR 1,428.00' } = {}): Buffer {
  const rows = [
    ['Description', 'Qty', 'Price', 'Amount'],
    ['Repair of a printing press', '2', '500.00', '1,000.00'],
    ['with a new roller', '', '', ''],
    ['Travel', '1.5', '133.33', '200.00'],
    ['Subtotal', '', '', '1,200.00'],
  ]
  const cell = (text: string, x: number, y: number) => (text === '' ? '' : lines([text], { x, y }))
  return rawPdf([
    {
      content: [
        lines(['INVOICE'], { size: 22, y: 780 }),
        lines([`Invoice no: ${number}`, 'VAT ID DE123456789'], { x: 50, y: 740 }),
        lines(['Invoice date:'], { x: 350, y: 740 }),
        lines(['31.01.2024'], { x: 450, y: 740 }),
        lines(['Due date:'], { x: 350, y: 726 }),
        lines(['14 February 2024'], { x: 450, y: 726 }),
        lines(['Bill to:', 'Miller & Sons Ltd.', '12 Harbour Road'], { y: 690, leading: 14 }),
        ...rows.flatMap((row, i) => row.map((text, j) => cell(text, [50, 300, 380, 480][j] ?? 0, 600 - i * 16))),
        ...(total === ''
          ? []
          : [cell('VAT', 380, 500), cell('EUR 228.00', 480, 500), cell('Total due', 380, 484), cell(total, 480, 484)]),
      ].join(''),
    },
  ])
}

/** A picture makes it as large as a document may be; nobody has to look into it. */
export const large = (): Buffer =>
  rawPdf([{ content: `${lines(['Below a large picture.'])} /Im0 Do` }], {
    forms: (pdf) =>
      `/Im0 ${pdf.stream(Buffer.alloc(48 * 2 ** 20, 'noise'), '/Type /XObject /Subtype /Image /Width 4096 /Height 4096 /BitsPerComponent 8 /ColorSpace /DeviceRGB')} 0 R`,
  })

/** The page that the guide shows. */
export const deliveryNote = (): Buffer =>
  rawPdf([
    {
      content: [
        lines(['Delivery note: D-4711'], { y: 780 }),
        lines(['Shipped on', '3 May 2024'], { x: 300, y: 780 }),
        lines(['Pallet P-1 and Pallet P-2'], { y: 750 }),
        lines(['Article', 'Bolts, galvanised', 'Nuts', 'Total'], { y: 720 }),
        lines(['Quantity', '   1,200', '     800', '   2,000'], { x: 240, y: 720 }),
      ].join(''),
    },
  ])

// ------------------------------------------------------------------------------------ written by a library, not by us

export async function withObjectStreams(): Promise<Buffer> {
  const pdf = await PDFDocument.create()
  const font = await pdf.embedFont(StandardFonts.TimesRoman)
  pdf.addPage([400, 300]).drawText('Packed into streams of objects.', { x: 40, y: 200, size: 12, font })
  pdf.setLanguage('en')
  return Buffer.from(await pdf.save({ useObjectStreams: true }))
}

export async function withForm(): Promise<Buffer> {
  const pdf = await PDFDocument.create()
  const page = pdf.addPage([400, 300])
  page.drawText('Please fill in', { x: 40, y: 270, size: 12 })
  const form = pdf.getForm()
  const name = form.createTextField('person.name')
  name.setText('Zoë <Müller>')
  name.addToPage(page, { x: 40, y: 200 })
  const agreed = form.createCheckBox('agreed')
  agreed.addToPage(page, { x: 40, y: 150 })
  agreed.check()
  const colour = form.createDropdown('colour')
  colour.addOptions(['red', 'green'])
  colour.select('green')
  colour.addToPage(page, { x: 40, y: 100 })
  return Buffer.from(await pdf.save())
}

export async function encrypted(passwords: { userPassword?: string; ownerPassword: string }): Promise<Buffer> {
  const pdf = await PDFDocument.create()
  pdf.addPage([400, 300]).drawText('A secret that only the owner may change.', { x: 40, y: 200, size: 12 })
  pdf.encrypt(passwords)
  return Buffer.from(await pdf.save())
}

export async function withAttachmentAndScript(): Promise<Buffer> {
  const pdf = await PDFDocument.create()
  pdf.addPage([400, 300]).drawText('It brings a file and a script.', { x: 40, y: 200, size: 12 })
  await pdf.attach(Buffer.from('<evil/>'), 'other.xml', { mimeType: 'text/xml', afRelationship: AFRelationship.Data })
  pdf.addJavaScript('main', 'app.alert("hello"); this.submitForm("http://127.0.0.1:1/")')
  return Buffer.from(await pdf.save())
}
