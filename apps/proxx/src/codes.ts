import { failureCodes } from 'redress'

/**
 * All failures of a proxx job. Nothing is retried automatically (P38), so each is final. The class of a failure and
 * its owner follow from the phase in which it happened; the guide has the table.
 */
export const CODES = failureCodes({
  SPEC_INVALID: { fault: 'caller', retry: 'never', http: 400, message: 'The job spec is not valid.' },
  PROFILE_UNKNOWN: { fault: 'caller', retry: 'never', http: 400, message: 'There is no such profile.' },
  PATH_NOT_ALLOWED: { fault: 'caller', retry: 'never', http: 403, message: 'A path lies where jobs may not reach.' },
  INPUT_MISSING: { fault: 'caller', retry: 'never', http: 422, message: 'A source is not there.' },
  INPUT_UNREADABLE: { fault: 'caller', retry: 'never', http: 422, message: 'A source cannot be read as a video.' },
  OUTPUT_NOT_WRITABLE: {
    fault: 'operator',
    retry: 'never',
    http: 422,
    message: 'The output directory is not there or cannot be written.',
  },
  OUTPUT_EXISTS: {
    fault: 'caller',
    retry: 'never',
    http: 409,
    message: 'An output exists already, and nothing is ever overwritten.',
  },
  DISK_INSUFFICIENT: {
    fault: 'operator',
    retry: 'never',
    http: 507,
    message: 'The disk of the output directory has too little room for the outputs.',
  },
  PROGRAM_MISSING: {
    fault: 'operator',
    retry: 'never',
    http: 503,
    message: 'ffmpeg or ffprobe is not installed, or may not be executed.',
  },
  DISPATCH_LOCKED: {
    fault: 'operator',
    retry: 'never',
    message: 'Another job holds the lock of the output directory.',
  },
  DISPATCH_NO_RESOURCES: {
    fault: 'system',
    retry: 'never',
    message: 'The worker refused the job: it has not what the job needs.',
  },
  FFMPEG_FAILED: { fault: 'caller', retry: 'never', message: 'ffmpeg could not make an output.' },
  FFMPEG_TIMEOUT: { fault: 'system', retry: 'never', message: 'ffmpeg took longer than a clip may take.' },
  FFMPEG_CRASHED: { fault: 'system', retry: 'never', message: 'ffmpeg crashed.' },
  FFMPEG_KILLED: { fault: 'system', retry: 'never', message: 'ffmpeg was ended from outside.' },
  OUTPUT_MISSING: { fault: 'system', retry: 'never', message: 'ffmpeg ended well and left no output.' },
  DISK_FULL: { fault: 'operator', retry: 'never', message: 'The disk of the output directory is full.' },
  VERIFY_EXISTS: verification('an output is not there'),
  VERIFY_SIZE: verification('an output is empty'),
  VERIFY_CODEC: verification('an output has the wrong codec'),
  VERIFY_PROFILE: verification('an output does not fit its profile'),
  VERIFY_DURATION: verification('an output is too short or too long'),
  VERIFY_FRAMES: verification('an output has the wrong number of frames'),
  VERIFY_DECODE: verification('an output does not decode from beginning to end'),
  VERIFY_FINGERPRINT: verification('the fingerprint of an output could not be taken'),
  VERIFY_SCRIPT: verification('the script of the job refused an output'),
  VERIFY_DELIVERY: verification('an output could not be given its name'),
  VERIFY_KILLED: verification('the program that made a check was killed or crashed'),
  VERIFY_TIMEOUT: verification('the program that made a check took too long'),
})

export type Code = keyof typeof CODES

/** How a submission that failed with a code is answered. */
export const httpStatusOf = (code: string): number => (CODES as Record<string, { http?: number }>)[code]?.http ?? 422

function verification(what: string) {
  return { fault: 'system', retry: 'never', message: `The verification failed: ${what}.` } as const
}

/** The checks of a verification, in the order in which they are made (P34, P62). */
export const CHECKS = [
  'exists',
  'size',
  'codec',
  'profile',
  'duration',
  'frames',
  'decode',
  'fingerprint',
  'script',
  'delivery',
] as const
export type Check = (typeof CHECKS)[number]

export const codeOfCheck = (check: Check): Code => `VERIFY_${check.toUpperCase()}` as Code

/** The error types of the source document, by the engine's phase. */
export const ERROR_TYPE_OF_STAGE = {
  pre_dispatch: 'pre_dispatch_failed',
  dispatch: 'dispatch_failed',
  execution: 'execution_failed',
  verification: 'verification_failed',
} as const
