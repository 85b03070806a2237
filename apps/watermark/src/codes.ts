import { failureCodes, type Taxonomy } from 'redress'

/** The failures of a copy. `waiting` is shown while a retry is scheduled, `message` when the failure is final. */
export const CODES = failureCodes({
  SOURCE_CORRUPT: {
    fault: 'caller',
    retry: 'never',
    message: 'The uploaded file is damaged or not complete. Upload it again and publish a copy of the campaign.',
  },
  SOURCE_MISSING: {
    fault: 'operator',
    retry: 'never',
    message: 'The uploaded file is not there any more. Upload it again and publish a copy of the campaign.',
  },
  TEXT_UNUSABLE: {
    fault: 'caller',
    retry: 'never',
    message: 'The recipient’s name cannot be written into the picture: it has no visible character.',
  },
  TEXT_UNDRAWABLE: {
    fault: 'operator',
    retry: 'never',
    message: 'The recipient’s name has characters that no font here can draw. Ask for a font that has them, and retry.',
  },
  UNKNOWN_JOB_TYPE: {
    fault: 'code',
    retry: 'never',
    message: 'Nobody here knows how to watermark this kind of file.',
  },
  CAMPAIGN_ENDED: {
    fault: 'caller',
    retry: 'never',
    message: 'The campaign ended before this copy was made.',
  },
  KEY_MISSING: {
    fault: 'operator',
    retry: 'transient',
    waiting: 'The key of this campaign was not there. We’ll retry.',
    message:
      'The key of this campaign is not there any more. Retry when it is back, or publish a copy of the campaign.',
  },
  PROGRAM_MISSING: {
    fault: 'operator',
    retry: 'transient',
    waiting: 'The watermarking program was not there. We’ll retry.',
    message: 'The watermarking program was not there each time. Retry when it is installed.',
  },
  OUT_OF_MEMORY: {
    fault: 'system',
    retry: 'transient',
    waiting: 'Watermarking ran out of memory. We’ll retry.',
    message: 'Watermarking ran out of memory each time. Retry later, or use a smaller file.',
  },
  TIMEOUT: {
    fault: 'system',
    retry: 'transient',
    waiting: 'Watermarking took too long. We’ll retry.',
    message: 'Watermarking took too long each time. Retry later, or use a shorter file.',
  },
  DISK_FULL: {
    fault: 'operator',
    retry: 'transient',
    waiting: 'There was no room for the copy. We’ll retry.',
    message: 'There was no room for the copy each time. Retry when there is.',
  },
  WRITE_FAILED: {
    fault: 'system',
    retry: 'transient',
    waiting: 'The copy could not be stored. We’ll retry.',
    message: 'The copy could not be stored each time. Retry later.',
  },
  ENCODE_FAILED: {
    fault: 'unknown',
    retry: 'transient',
    waiting: 'Watermarking failed. We’ll retry.',
    message: 'Watermarking failed each time. Retry, or tell us.',
  },
  VERIFICATION_FAILED: {
    fault: 'system',
    retry: 'transient',
    waiting: 'The copy did not pass its check. We’ll make it again.',
    message: 'The copy did not pass its check each time. Retry, or tell us.',
  },
  UNKNOWN: {
    fault: 'unknown',
    retry: 'transient',
    waiting: 'Something went wrong. We’ll retry.',
    message: 'Something went wrong that we did not foresee. Retry, or tell us.',
  },
})

export type Code = keyof typeof CODES

/** The same of a search for whose copy a file is, which is not tried again. */
export const DETECT_CODES: Taxonomy<Code> = failureCodes({
  ...CODES,
  SOURCE_CORRUPT: {
    fault: 'caller',
    retry: 'never',
    message: 'The file is damaged, or no video or image that we know.',
  },
  SOURCE_MISSING: { fault: 'operator', retry: 'never', message: 'The file is not there any more. Send it again.' },
  KEY_MISSING: {
    fault: 'operator',
    retry: 'never',
    message: 'The key of this campaign’s marks is not there any more.',
  },
  PROGRAM_MISSING: { fault: 'operator', retry: 'never', message: 'The program that looks for marks was not there.' },
  OUT_OF_MEMORY: { fault: 'system', retry: 'never', message: 'There was not enough memory. Send a smaller file.' },
  TIMEOUT: { fault: 'system', retry: 'never', message: 'It took too long. Send a shorter file.' },
  DISK_FULL: { fault: 'operator', retry: 'never', message: 'There was no room to work in. Send it again later.' },
  WRITE_FAILED: { fault: 'system', retry: 'never', message: 'A file could not be written. Send it again later.' },
  ENCODE_FAILED: { fault: 'unknown', retry: 'never', message: 'The file could not be checked. Send another one.' },
  UNKNOWN: { fault: 'unknown', retry: 'never', message: 'Something went wrong that we did not foresee. Tell us.' },
})
