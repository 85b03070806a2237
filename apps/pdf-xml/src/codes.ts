import { failureCodes } from 'redress'

/**
 * The ten codes of answers, records, logs and pages (D1). `waiting` is shown while a retry is scheduled, `message`
 * when no retry follows.
 */
export const CODES = failureCodes({
  NOT_PDF: { fault: 'caller', retry: 'never', http: 400, message: 'Only PDF files are supported.' },
  TOO_LARGE: { fault: 'caller', retry: 'never', http: 413, message: 'File exceeds 50 MB limit.' },
  GW_4XX: {
    fault: 'caller',
    retry: 'never',
    message: 'Couldn’t convert this file with the selected mapping.',
  },
  GW_5XX: {
    fault: 'dependency',
    retry: 'transient',
    waiting: 'Converter service is having an issue. We’ll retry shortly.',
    message: 'Converter service kept having an issue. Retry when it is back.',
  },
  GW_TIMEOUT: {
    fault: 'dependency',
    retry: 'transient',
    waiting: 'Conversion is taking too long. We’ll retry.',
    message: 'Conversion took too long each time. Retry later, or split the file.',
  },
  IO_ERROR: {
    fault: 'system',
    retry: 'transient',
    http: 500,
    waiting: 'Temporary storage issue. We’ll retry.',
    message: 'A storage issue kept us from finishing. Retry later.',
  },
  NOT_READY: { fault: 'caller', retry: 'never', http: 409, message: 'Conversion not finished yet.' },
  EXPIRED: {
    fault: 'operator',
    retry: 'never',
    http: 404,
    message: 'File was removed by retention. Re-upload to regenerate.',
  },
  FORBIDDEN: { fault: 'caller', retry: 'never', http: 403, message: 'This file isn’t yours.' },
  UNKNOWN: {
    fault: 'unknown',
    retry: 'transient',
    http: 500,
    waiting: 'Something went wrong. We’ll retry.',
    message: 'Something went wrong that we did not foresee. Retry, or tell us.',
  },
})

export type Code = keyof typeof CODES
