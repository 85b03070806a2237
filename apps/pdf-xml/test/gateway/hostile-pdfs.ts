/** Documents that must be refused, or survived. */
import { constants, deflateRawSync, deflateSync } from 'node:zlib'
import { lines, RawPdf, rawPdf } from './raw-pdf.ts'

/** Deflated zeros that become `mb` megabytes, made without ever having them. */
function bomb(mb: number): Buffer {
  const chunk = deflateRawSync(Buffer.alloc(2 ** 20), { finishFlush: constants.Z_FULL_FLUSH })
  const end = Buffer.from([0x03, 0x00, 0, 0, 0, 0])
  return Buffer.concat([Buffer.from([0x78, 0x9c]), ...Array.from({ length: mb }, () => chunk), end])
}

export function zipBomb({ isNested = false } = {}): Buffer {
  const pdf = new RawPdf()
  const tree = pdf.reserve()
  const packed = bomb(1024)
  const content = isNested
    ? pdf.stream(deflateSync(packed), '/Filter [/FlateDecode /FlateDecode]')
    : pdf.stream(packed, '/Filter /FlateDecode')
  const page = pdf.add(`<< /Type /Page /Parent ${tree} 0 R /MediaBox [0 0 595 842] /Contents ${content} 0 R >>`)
  pdf.set(tree, `<< /Type /Pages /Kids [${page} 0 R] /Count 1 >>`)
  return pdf.build(pdf.add(`<< /Type /Catalog /Pages ${tree} 0 R >>`))
}

/** Each form shows the next one ten times: ten billion texts in a few hundred bytes. */
export function manyLaughs(): Buffer {
  return rawPdf([{ content: '/Fm0 Do' }], {
    forms(pdf) {
      const leaf = pdf.stream(lines(['ha']), form('/Font << /F1 2 0 R >>'))
      let inner = leaf
      for (let level = 0; level < 10; level++) {
        inner = pdf.stream('/Fm Do '.repeat(10), form(`/XObject << /Fm ${inner} 0 R >>`))
      }
      return `/Fm0 ${inner} 0 R`
    },
  })
}

export function recursiveForm(): Buffer {
  return rawPdf([{ content: `${lines(['Before the form'])} /Fm0 Do` }], {
    forms(pdf) {
      const number = pdf.reserve()
      const own = pdf.stream('/Fm0 Do', form(`/XObject << /Fm0 ${number} 0 R >>`))
      pdf.set(number, `${own} 0 R`)
      return `/Fm0 ${own} 0 R`
    },
  })
}

const form = (resources: string) => `/Type /XObject /Subtype /Form /BBox [0 0 595 842] /Resources << ${resources} >>`

export function scan(): Buffer {
  return rawPdf([{ content: 'q 595 0 0 842 0 0 cm /Im0 Do Q' }], {
    forms: (pdf) =>
      `/Im0 ${pdf.packed(Buffer.alloc(64 * 64, 128), '/Type /XObject /Subtype /Image /Width 64 /Height 64 /BitsPerComponent 8 /ColorSpace /DeviceGray')} 0 R`,
  })
}

export const blank = (): Buffer => rawPdf([{ content: '' }, { content: '' }])

export const noise = (): Buffer =>
  Buffer.concat([
    Buffer.from('%PDF-1.7\n'),
    Buffer.from(Array.from({ length: 20_000 }, (_, i) => (i * 7919 + (i >> 3)) & 0xff)),
  ])

/** Says that it has a billion pages, and shows one. */
export function liesAboutCount(): Buffer {
  const text = rawPdf([{ content: lines(['The only page.']) }]).toString('latin1')
  return Buffer.from(text.replace('/Count 1 ', '/Count 1000000000 '), 'latin1')
}

export function circularTree(): Buffer {
  const pdf = new RawPdf()
  const tree = pdf.reserve()
  const inner = pdf.add(`<< /Type /Pages /Parent ${tree} 0 R /Kids [${tree} 0 R] /Count 1 >>`)
  pdf.set(tree, `<< /Type /Pages /Kids [${inner} 0 R] /Count 1 >>`)
  return pdf.build(pdf.add(`<< /Type /Catalog /Pages ${tree} 0 R >>`))
}

export const deepDictionaries = (depth: number): Buffer =>
  rawPdf([{ content: lines(['Below it all is a page.']) }], {
    catalog: `/Deep ${'<< /A '.repeat(depth)}1${' >>'.repeat(depth)}`,
  })

export const deepArrays = (depth: number): Buffer =>
  rawPdf([{ content: `${lines(['Before the arrays'])} ${'['.repeat(depth)}${']'.repeat(depth)} TJ` }])

export function brokenXref(): Buffer {
  const text = rawPdf([{ content: lines(['It can be repaired.']) }]).toString('latin1')
  return Buffer.from(
    text.replace(/startxref\n\d+/, 'startxref\n7').replace(/\d{10} 00000 n/g, '0000000001 00000 n'),
    'latin1',
  )
}

export function truncated(share: number): Buffer {
  const whole = rawPdf(Array.from({ length: 6 }, (_, i) => ({ content: lines([`Page ${i + 1} of six.`]) })))
  return whole.subarray(0, Math.floor(whole.length * share))
}

/** One of its pages is no page. */
export function oneBrokenPage(): Buffer {
  const pdf = new RawPdf()
  const tree = pdf.reserve()
  const font = pdf.add('<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>')
  const content = pdf.packed(lines(['A page that can be read.']))
  const good = pdf.add(
    `<< /Type /Page /Parent ${tree} 0 R /MediaBox [0 0 595 842] /Contents ${content} 0 R /Resources << /Font << /F1 ${font} 0 R >> >> >>`,
  )
  pdf.set(tree, `<< /Type /Pages /Kids [${good} 0 R 4711 0 R ${good} 0 R] /Count 3 >>`)
  return pdf.build(pdf.add(`<< /Type /Catalog /Pages ${tree} 0 R >>`))
}

/** A first object that promises a fast first page, with numbers that are not true. */
export function liesAboutLinearization(): Buffer {
  const pdf = new RawPdf()
  pdf.add('<< /Linearized 1 /L 123456789 /H [ 9 9 ] /O 99 /E 99 /N 99 /T 99 >>')
  const tree = pdf.reserve()
  const font = pdf.add('<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>')
  const content = pdf.packed(lines(['It is not linearized.']))
  const page = pdf.add(
    `<< /Type /Page /Parent ${tree} 0 R /MediaBox [0 0 595 842] /Contents ${content} 0 R /Resources << /Font << /F1 ${font} 0 R >> >> >>`,
  )
  pdf.set(tree, `<< /Type /Pages /Kids [${page} 0 R] /Count 1 >>`)
  return pdf.build(pdf.add(`<< /Type /Catalog /Pages ${tree} 0 R >>`))
}
