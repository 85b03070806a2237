/** What the server says, before it is written to the connection. */
export interface Answer {
  status: number
  headers?: Record<string, string>
  body?: string | Uint8Array
}

/** An error as S3 tells it: a code for programs, a status, a sentence. */
export class S3Error extends Error {
  readonly code: string
  readonly status: number

  constructor(code: string, status: number, message: string) {
    super(message)
    this.code = code
    this.status = status
  }
}

export function errorAnswer({ code, status, message }: S3Error): Answer {
  return { ...xmlAnswer(`<Error>${element('Code', code)}${element('Message', message)}</Error>`), status }
}

export function xmlAnswer(xml: string): Answer {
  return {
    status: 200,
    headers: { 'content-type': 'application/xml' },
    body: `<?xml version="1.0" encoding="UTF-8"?>\n${xml}`,
  }
}

export function element(name: string, content: string | number | boolean): string {
  return `<${name}>${escapeXml(String(content))}</${name}>`
}

function escapeXml(text: string): string {
  return text.replace(/[<>&"]/g, (char) => `&#${char.charCodeAt(0)};`)
}

/** The texts of all elements of this name. Enough for the two bodies that clients send: they hold no attributes. */
export function textsOf(xml: string, name: string): string[] {
  return [...xml.matchAll(new RegExp(`<${name}>([^<]*)</${name}>`, 'g'))].map(([, text = '']) =>
    text
      .replace(/&quot;/g, '"')
      .replace(/&lt;/g, '<')
      .replace(/&gt;/g, '>')
      .replace(/&amp;/g, '&'),
  )
}
