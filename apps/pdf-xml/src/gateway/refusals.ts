/** Why a request was not answered with XML: one table for the status, and for what the caller can do about it. */
export const REFUSALS = {
  INVALID_MAPPING: [400, 'GET /mappings lists the mappings there are.'],
  PARSE_ERROR: [400, 'Save or print the document as a PDF again, and send that.'],
  ENCRYPTED: [400, 'Remove the password and send the document again.'],
  NO_TEXT_LAYER: [400, 'Run text recognition (OCR) on the document first.'],
  VALIDATION: [400, 'Check that the document is of the kind this mapping is for.'],
  MEMORY: [400, 'Split the document into smaller ones.'],
  TOO_MANY_PAGES: [400, 'Split the document into smaller ones.'],
  RESULT_TOO_LARGE: [400, 'Split the document into smaller ones.'],
  REQUEST_INVALID: [400, undefined],
  NOT_FOUND: [404, undefined],
  NOT_ACCEPTABLE: [406, 'Send Accept: application/xml.'],
  TOO_LARGE: [413, 'Split the document into smaller ones.'],
  UNSUPPORTED_MEDIA_TYPE: [415, 'Send Content-Type: application/pdf.'],
  FAULT: [500, 'DELETE /faults ends the faults that were asked for.'],
  PARSER_DIED: [500, 'Send the document again; if it happens again, it is the document.'],
  INTERNAL: [500, 'Look into the log of the gateway.'],
  SATURATED: [503, 'Send the document again later.'],
  STOPPING: [503, 'Send the document again later.'],
  PARSE_TIMEOUT: [504, 'Split the document into smaller ones.'],
} as const satisfies Record<string, readonly [status: number, action: string | undefined]>

export type RefusalCode = keyof typeof REFUSALS

export const RETRY_AFTER_S = 2

export class Refusal extends Error {
  readonly code: RefusalCode
  readonly status: number

  constructor(code: RefusalCode, message: string, options?: { status?: number; cause?: unknown }) {
    super(message, options)
    this.code = code
    this.status = options?.status ?? REFUSALS[code][0]
  }

  get body(): { error: { code: RefusalCode; message: string; action?: string } } {
    const action = REFUSALS[this.code][1]
    return { error: { code: this.code, message: this.message, ...(action !== undefined && { action }) } }
  }
}
