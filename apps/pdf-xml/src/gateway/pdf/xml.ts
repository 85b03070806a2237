import { closeSync, openSync, writeSync } from 'node:fs'
import { Refusal } from '../refusals.ts'

// Everything that XML 1.0 has no place for; with the flag u, a surrogate without its other half is one of them.
const FORBIDDEN = /[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/gu
const UNMAPPED = /[\uFFFD\p{Co}]/gu
const FLUSH_CHARS = 64 * 1024

/** How much of a text could not be given as it was. */
export class Losses {
  replaced = 0
  unmapped = 0

  clean(text: string): string {
    for (const _ of text.matchAll(UNMAPPED)) this.unmapped++
    return text.replaceAll(FORBIDDEN, () => {
      this.replaced++
      return '\uFFFD'
    })
  }

  get attributes(): Attributes {
    return { replaced: this.replaced || undefined, unmapped: this.unmapped || undefined }
  }
}

type Attributes = Readonly<Record<string, string | number | undefined>>

/** Writes to the file as it goes, so that the size of a result does not need memory. */
export class XmlFile {
  readonly #fd: number
  readonly #bytesMax: number
  #bytes = 0
  #waiting: string[] = []
  #waitingChars = 0
  #open: string[] = []

  constructor(path: string, bytesMax: number) {
    this.#fd = openSync(path, 'wx')
    this.#bytesMax = bytesMax
    this.#add('<?xml version="1.0" encoding="UTF-8"?>\n')
  }

  begin(name: string, attributes: Attributes = {}): void {
    this.#add(`${this.#indent()}<${name}${attributesText(attributes)}>\n`)
    this.#open.push(name)
  }

  end(): void {
    const name = this.#open.pop()
    this.#add(`${this.#indent()}</${name}>\n`)
  }

  element(name: string, text: string, attributes: Attributes = {}): void {
    const tag = `${name}${attributesText(attributes)}`
    this.#add(`${this.#indent()}${text === '' ? `<${tag}/>` : `<${tag}>${escapeText(text)}</${name}>`}\n`)
  }

  close(): void {
    this.#flush()
    closeSync(this.#fd)
  }

  #indent(): string {
    return '  '.repeat(this.#open.length)
  }

  #add(text: string): void {
    this.#waiting.push(text)
    this.#waitingChars += text.length
    if (this.#waitingChars >= FLUSH_CHARS) this.#flush()
  }

  #flush(): void {
    const bytes = Buffer.from(this.#waiting.join(''))
    this.#waiting = []
    this.#waitingChars = 0
    this.#bytes += bytes.length
    if (this.#bytes > this.#bytesMax) {
      throw new Refusal('RESULT_TOO_LARGE', `The XML of this document is larger than ${this.#bytesMax} bytes.`)
    }
    for (let at = 0; at < bytes.length; ) at += writeSync(this.#fd, bytes, at)
  }
}

/** A layout has hundreds of thousands of them: no lists are made on the way. */
function attributesText(attributes: Attributes): string {
  let text = ''
  for (const name in attributes) {
    const value = attributes[name]
    if (value === undefined) continue
    text += ` ${name}="${typeof value === 'number' ? value : escapeAttribute(value)}"`
  }
  return text
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  '\t': '&#9;',
  '\n': '&#10;',
  '\r': '&#13;',
}

const escapeText = (text: string): string => text.replace(/[&<>\r]/g, (char) => ENTITIES[char] ?? char)
const escapeAttribute = (text: string): string => text.replace(/[&<>"\t\n\r]/g, (char) => ENTITIES[char] ?? char)

/** Points have two decimals: a hundredth is finer than any printer. */
export const points = (value: number): number => Math.round(value * 100) / 100 || 0
