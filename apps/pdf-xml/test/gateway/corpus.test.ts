import { once } from 'node:events'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../../../../test/support/until.ts'
import * as hostile from './hostile-pdfs.ts'
import * as pdfs from './pdfs.ts'
import { type Answer, descendants, invalidities, type OwnProcess, rssMb, send, startProcess } from './world.ts'

/** With the limits that it has when nobody gives any: those must be enough, and not too much. */
let gateway: OwnProcess
let peakMb = 0
let watch: NodeJS.Timeout
/** Every XML that was answered, for the schema. */
const answered = new Map<string, string>()

beforeAll(async () => {
  gateway = await startProcess({ untilStdinEnds: true })
  watch = setInterval(() => {
    // Memory as Linux tells it; on other systems there is nothing to add up.
    const pids = [gateway.pid, ...descendants(gateway.pid)]
    peakMb = Math.max(
      peakMb,
      pids.reduce((sum, pid) => sum + rssMb(pid), 0),
    )
  }, 50)
})

afterAll(() => {
  clearInterval(watch)
  gateway.child.kill('SIGKILL')
})

/** In both forms at the same time, so that one of them waits for the other. */
async function sendBoth(name: string, pdf: Buffer): Promise<{ text: Answer; layout: Answer }> {
  const [text, layout] = await Promise.all([
    send(gateway.url, pdf, { mapping: 'text' }),
    send(gateway.url, pdf, { mapping: 'layout' }),
  ])
  for (const [mapping, answer] of Object.entries({ text, layout })) {
    if (answer.status === 200) answered.set(`${name.replaceAll(/\W+/g, '-')}-${mapping}`, answer.text)
  }
  return { text, layout }
}

const paragraphsOf = (xml: string): string[] =>
  [...xml.matchAll(/<paragraph[^>]*>(.*?)<\/paragraph>/gs)].map(([, text = '']) => text)
const wordsOf = (xml: string): string[] => [...xml.matchAll(/<word[^>]*>(.*?)<\/word>/gs)].map(([, text = '']) => text)
const marked = (mark: string, count: number) =>
  Array.from({ length: count }, (_, i) => `${mark}${i + 1} lorem ipsum dolor sit amet`).join(' ')

type Make = () => Buffer | Promise<Buffer>

const read: [name: string, make: Make, paragraphs: string[]][] = [
  ['a plain page', pdfs.plain, ['A plain page. It has two lines.']],
  [
    'paragraphs by size, distance and indent',
    pdfs.paragraphs,
    [
      'A heading',
      'The first paragraph has two lines.',
      'The second stands apart and has two, too.',
      'The third is indented and goes on at the margin.',
    ],
  ],
  [
    'two columns between a heading and a footer',
    pdfs.twoColumns,
    [
      'A heading that goes across both of the columns below it',
      marked('L', 20),
      marked('R', 20),
      'A footer that is centred below both of the columns of this page',
    ],
  ],
  [
    'two columns with a page number above the right one and a line below the left one',
    pdfs.journal,
    ['Journal of Columns 17', marked('L', 20), marked('R', 18), 'May 2024'],
  ],
  [
    'lists, item by item, and a number at the beginning of a line that is none of a list',
    pdfs.lists,
    [
      'A list of two:',
      '• the first of them in two lines',
      '• the second',
      '1. One',
      '2. Two',
      'It was in the year 7. It ended.',
    ],
  ],
  [
    'three columns under a heading',
    pdfs.threeColumns,
    ['A heading that goes across all three of the columns below it', marked('A', 15), marked('B', 15), marked('C', 15)],
  ],
  ['a page turned by 90 degrees', () => pdfs.rotated(90), ['First line of the page second line of it']],
  ['a page turned by 180 degrees', () => pdfs.rotated(180), ['First line of the page second line of it']],
  ['a page turned by 270 degrees', () => pdfs.rotated(270), ['First line of the page second line of it']],
  ['text that is written sideways', pdfs.sideways, ['First line of the page second line of it']],
  ['a watermark across the text', pdfs.skewed, ['Upright text of the page in two lines', 'DRAFT']],
  ['Hebrew, as it is read', () => pdfs.rightToLeft(['שלום עולם', 'זה טקסט 42']), ['שלום עולם זה טקסט 42']],
  ['Arabic, as it is read', () => pdfs.rightToLeft(['مرحبا بالعالم']), ['مرحبا بالعالم']],
  [
    'Arabic that gives the shapes of its letters, as the letters that they are',
    () => pdfs.withMeanings('abc', new Map([pdfs.meaning('a', 'ﻻ'), pdfs.meaning('b', 'ﺒ'), pdfs.meaning('c', 'ﻣ')])),
    ['مبلا'],
  ],
  ['Chinese in a font that is only named', pdfs.tokyo, ['你好世界']],
  ['Japanese from top to bottom, from right to left', pdfs.vertical, ['日本語 東京都']],
  ['emoji', () => pdfs.withMeanings('ab', new Map([pdfs.meaning('a', '😀'), pdfs.meaning('b', 'é')])), ['😀é']],
  ['ligatures', pdfs.ligatures, ['office and flower']],
  [
    'words that are divided at the ends of lines',
    pdfs.hyphenated,
    ['Words at the end of lines are sometimes divided, but names like Anna-Lena keep their hyphen.'],
  ],
  ['text that is printed twice to look bold', pdfs.fakeBold, ['Printed twice', 'Printed once']],
  ['text that is hardly to be seen, or not at all', pdfs.tinyFont, ['Hardly to be seen']],
  ['a word of 30,000 letters', pdfs.longWord, [`begin ${'abcdefghij'.repeat(3_000)} end`]],
  ['PDF 2.0', pdfs.secondVersion, ['PDF of the second version.']],
  ['an incremental update', pdfs.updated, ['The new text.']],
  ['streams of objects', pdfs.withObjectStreams, ['Packed into streams of objects.']],
  [
    'a password that is the owner’s alone',
    () => pdfs.encrypted({ ownerPassword: 'o' }),
    ['A secret that only the owner may change.'],
  ],
  ['an attachment and a script', pdfs.withAttachmentAndScript, ['It brings a file and a script.']],
  ['a table of references that is wrong', hostile.brokenXref, ['It can be repaired.']],
  ['an end that is missing', () => hostile.truncated(0.99), [1, 2, 3, 4, 5, 6].map((page) => `Page ${page} of six.`)],
  ['a picture of 48 MB', pdfs.large, ['Below a large picture.']],
  ['a billion pages that are not there', hostile.liesAboutCount, ['The only page.']],
  ['a promise of linearization that is not kept', hostile.liesAboutLinearization, ['It is not linearized.']],
  ['a form that shows itself', hostile.recursiveForm, ['Before the form']],
  ['arrays in arrays, 20,000 deep', () => hostile.deepArrays(20_000), ['Before the arrays']],
]

const refused: [name: string, make: Make, code: string][] = [
  ['an empty file', () => Buffer.alloc(0), 'PARSE_ERROR'],
  ['noise after the first line', hostile.noise, 'PARSE_ERROR'],
  ['a tenth of a file', () => hostile.truncated(0.1), 'PARSE_ERROR'],
  ['half a file', () => hostile.truncated(0.5), 'PARSE_ERROR'],
  ['nine tenths of a file', () => hostile.truncated(0.9), 'PARSE_ERROR'],
  ['a tree of pages that is a circle', hostile.circularTree, 'PARSE_ERROR'],
  ['dictionaries in dictionaries, 20,000 deep', () => hostile.deepDictionaries(20_000), 'PARSE_ERROR'],
  ['a password', () => pdfs.encrypted({ userPassword: 'u', ownerPassword: 'o' }), 'ENCRYPTED'],
  ['a scan', hostile.scan, 'NO_TEXT_LAYER'],
  ['blank pages', hostile.blank, 'NO_TEXT_LAYER'],
  ['5,001 pages', () => pdfs.manyPages(5_001), 'TOO_MANY_PAGES'],
  ['a stream that unpacks to a gigabyte', hostile.zipBomb, 'MEMORY'],
  ['a gigabyte that is packed twice', () => hostile.zipBomb({ isNested: true }), 'MEMORY'],
]

describe('the corpus', () => {
  test.each(read)('is read: %s', async (name, make, paragraphs) => {
    const { text, layout } = await sendBoth(name, await make())
    expect([text.code, layout.code]).toEqual([undefined, undefined])
    expect(paragraphsOf(text.text)).toEqual(paragraphs)
    expect(wordsOf(layout.text).join(' ')).toContain(paragraphs[0]?.split(' ')[0])
  })

  test.each(refused)(
    'a hostile or unreadable document is refused and the next one is read: %s [D25 D26 E7]',
    async (name, make, code) => {
      const { text, layout } = await sendBoth(name, await make())
      expect([text.code, layout.code]).toEqual([code, code])
      expect([text.status, layout.status]).toEqual([400, 400])
      expect(text.text).not.toMatch(/\/(tmp|work|home|node_modules)|\.ts|\n/)
      const next = await send(gateway.url, pdfs.plain())
      expect(paragraphsOf(next.text)).toEqual(['A plain page. It has two lines.'])
    },
  )

  test('a thousand pages are read, each in its place', async () => {
    const { text, layout } = await sendBoth('thousand', pdfs.manyPages(1_000))
    expect([text.headers.get('x-pages'), layout.headers.get('x-pages')]).toEqual(['1000', '1000'])
    const expected = Array.from({ length: 1_000 }, (_, i) => `Page ${i + 1} begins here. It goes on.`)
    expect(paragraphsOf(text.text)).toEqual(expected)
    expect(wordsOf(layout.text).join(' ')).toBe(expected.join(' '))
  })

  test('a hundred thousand pieces of text on a page are read', async () => {
    const { status, text } = await send(gateway.url, pdfs.manyRuns(100_000))
    expect(status).toBe(200)
    expect(text.match(/a/g)?.length).toBeGreaterThan(100_000)
  })

  test('a page that is damaged is marked, and the others are read', async () => {
    const { text } = await sendBoth('one-broken', hostile.oneBrokenPage())
    expect(text.text).toMatch(/<page number="2" broken="true"\/>/)
    expect(paragraphsOf(text.text)).toContain('A page that can be read.')
  })

  test('text that runs from right to left says so', async () => {
    const { text, layout } = await sendBoth('rtl', pdfs.rightToLeft(['שלום עולם']))
    expect(text.text).toContain('<paragraph dir="rtl">')
    expect(layout.text).toMatch(/<block [^>]*dir="rtl"/)
    // The word that is read first stands farther to the right.
    const [first = 0, second = 0] = [...layout.text.matchAll(/<word x="([\d.]+)"/g)].map(([, x]) => Number(x))
    expect(first).toBeGreaterThan(second)
  })

  test('characters that XML has no place for are replaced and counted', async () => {
    const meanings = new Map([pdfs.meaning('a', '\u0001'), pdfs.meaning('b', '\uFFFE'), pdfs.meaning('c', 'ok')])
    const { text, layout } = await sendBoth('forbidden', pdfs.withMeanings('abc', meanings))
    expect(text.text).toMatch(/<page [^>]*replaced="2"/)
    expect(paragraphsOf(text.text)).toEqual(['\uFFFD\uFFFDok'])
    expect(layout.text).toMatch(/<page [^>]*replaced="2"/)
  })

  test('glyphs without a meaning are counted, and never taken for letters', async () => {
    const { text, layout } = await sendBoth('unmapped', pdfs.withMeanings('Hello dear world'))
    expect(text.text).toMatch(/<page [^>]*unmapped="16"/)
    expect(paragraphsOf(text.text)).toEqual(['\uFFFD'.repeat(16)])
    expect(layout.text).toMatch(/<page [^>]*unmapped="16"/)
    const own = await sendBoth(
      'private',
      pdfs.withMeanings('ab', new Map([pdfs.meaning('a', '\uE000'), pdfs.meaning('b', 'b')])),
    )
    expect(own.text.text).toMatch(/<page [^>]*unmapped="1"/)
  })

  test('codes that are Unicode, and say so, are text', async () => {
    const text = 'Numbered by Unicode'
    const answer = await send(gateway.url, pdfs.numberedByUnicode(text))
    expect(paragraphsOf(answer.text)).toEqual([text])
    expect(answer.text).not.toContain('unmapped')
  })

  test('the metadata of a document is in the XML, with ISO dates', async () => {
    const { text } = await sendBoth('described', pdfs.described())
    expect(text.text).toContain('<title>A \uFFFD title &amp; more</title>')
    expect(text.text).toContain('<author>Ann</author>')
    expect(text.text).toContain('<created>2024-01-31T12:00:00+01:00</created>')
    expect(text.text).not.toContain('<modified>')
    expect(text.text).toContain('<language>de-DE</language>')
    expect(text.text).toContain('<pdfVersion>1.7</pdfVersion>')
  })

  test('the values of form fields are in the XML', async () => {
    const { text, layout } = await sendBoth('form', await pdfs.withForm())
    for (const { text: xml } of [text, layout]) {
      expect(xml).toContain('<field name="person.name" type="text" page="1">Zoë &lt;Müller&gt;</field>')
      expect(xml).toContain('<field name="agreed" type="checkbox" page="1">Yes</field>')
      expect(xml).toContain('<field name="colour" type="choice" page="1">green</field>')
    }
  })

  test('a layout gives the place of each word, in points from the upper left corner', async () => {
    const { text: upright } = await send(gateway.url, pdfs.plain(), { mapping: 'layout' })
    const word = '<word x="50" y="54" width="6.67" height="10" font="f1" size="10">A</word>'
    expect(upright).toContain(word)
    expect(upright).toContain('<font id="f1" name="Helvetica" family="Helvetica"/>')
    // Turned pages are measured as they are looked at.
    const { text: turned } = await send(gateway.url, pdfs.rotated(90), { mapping: 'layout' })
    expect(turned).toMatch(/<page number="1" width="842" height="595" rotation="90">/)
    expect(turned).toContain('<word x="40" y="187" width="19.44" height="10" font="f1" size="10">First</word>')
  })

  test('an invoice becomes a record', async () => {
    const answer = await send(gateway.url, pdfs.invoice(), { mapping: 'invoice@1' })
    answered.set('invoice', answer.text)
    expect(answer.headers.get('x-mapping')).toBe('invoice@1')
    const fields = [...answer.text.matchAll(/<field name="(\w+)"[^>]*>(.*?)<\/field>/g)].map(([, name, value]) => [
      name,
      value,
    ])
    expect(fields).toEqual([
      ['invoiceNumber', 'INV-2024/017'],
      ['invoiceDate', '2024-01-31'],
      ['dueDate', '2024-02-14'],
      ['customer', 'Miller &amp; Sons Ltd.'],
      ['taxId', 'DE123456789'],
      ['tax', '228.00'],
      ['total', '1428.00'],
      ['description', 'Repair of a printing press with a new roller'],
      ['quantity', '2'],
      ['price', '500.00'],
      ['amount', '1000.00'],
      ['description', 'Travel'],
      ['quantity', '1.5'],
      ['price', '133.33'],
      ['amount', '200.00'],
    ])
    expect(answer.text).toContain('<field name="total" type="money" page="1" currency="EUR">')
  })

  test("a document without a required field is refused with the field's name [D25 E7]", async () => {
    const answer = await send(gateway.url, pdfs.invoice({ total: '' }), { mapping: 'invoice' })
    expect([answer.status, answer.code]).toEqual([400, 'VALIDATION'])
    expect(answer.message).toContain('total')
    const wrong = await send(gateway.url, pdfs.invoice({ total: 'to be agreed' }), { mapping: 'invoice' })
    expect(wrong.message).toBe('The value found for the field total is not of type money.')
  })
})

describe('after the whole corpus', () => {
  test('every XML was valid against the schema that ships', async () => {
    expect(answered.size).toBeGreaterThan(2 * read.length)
    expect(await invalidities(answered)).toEqual([])
    // The validator does say when something is wrong.
    const broken = new Map([['broken', (answered.get('invoice') ?? '').replace('type="date"', 'type="day"')]])
    expect(await invalidities(broken)).toEqual([expect.stringContaining('day')])
  })

  test('the gateway and its parsers never had 512 MB together', () => {
    expect(peakMb).toBeGreaterThan(100)
    expect(peakMb).toBeLessThan(512)
  })

  test('it ends with the program that started it, and leaves no process behind', async () => {
    const below = descendants(gateway.pid)
    expect(below.length).toBeGreaterThan(0)
    const ended = once(gateway.child, 'exit')
    gateway.child.stdin?.end()
    expect(await ended).toEqual([0, null])
    await until('its parsers are gone', () => below.every((pid) => rssMb(pid) === 0))
  })
})
