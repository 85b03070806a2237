interface ErrorSpec {
  http: number
  exit: number
  /** What the person can do about it, in general; a thrown error may say it more precisely. */
  action: string
}

/**
 * Every way Redress refuses something, in one table: HTTP status, exit code and action by code. A code that is not here cannot be
 * thrown.
 */
export const ERRORS = {
  INPUT_INVALID: { http: 422, exit: 2, action: 'Correct the named fields and submit again.' },
  PAYLOAD_TOO_LARGE: {
    http: 413,
    exit: 2,
    action: 'Store the data elsewhere and submit a reference to it, or raise payloadBytesMax.',
  },
  PAYLOAD_NOT_JSON: {
    http: 422,
    exit: 2,
    action: 'Submit values that JSON can hold: no functions, symbols, BigInts or cycles.',
  },
  SUBMISSION_REFUSED: {
    http: 422,
    exit: 2,
    action: 'See the code in the message; submit again when its cause is gone.',
  },
  OPTION_INVALID: { http: 400, exit: 2, action: 'Correct the named option.' },
  TYPE_UNKNOWN: { http: 404, exit: 3, action: 'Check the spelling, or start a program that declares this job type.' },
  TYPE_DECLARED_TWICE: { http: 500, exit: 1, action: 'Give each job type its own name.' },
  JOB_NOT_FOUND: { http: 404, exit: 3, action: 'Check the id; finished jobs are removed after their retention.' },
  CHANNEL_UNKNOWN: { http: 404, exit: 3, action: 'Check the spelling, or start a program that declares this channel.' },
  BATCH_NOT_FOUND: {
    http: 404,
    exit: 3,
    action: 'Check the id; a batch is removed together with the last of its jobs.',
  },
  BATCH_CLOSED: { http: 409, exit: 4, action: 'Add jobs before a batch is sealed, or open another batch.' },
  JOB_WRONG_STATE: { http: 409, exit: 4, action: 'Look at the job again: it may have moved on since you looked.' },
  NOT_ALLOWED_BY_POLICY: { http: 409, exit: 4, action: 'See `redress jobs explain JOB` for what can be done.' },
  FORBIDDEN: { http: 403, exit: 4, action: 'Ask its owner, or an operator.' },
  RETRY_REFUSED: {
    http: 409,
    exit: 4,
    action: 'See the code in the message; retry when its cause is gone. Nothing was changed.',
  },
  ALREADY_RETRIED: {
    http: 409,
    exit: 4,
    action: 'Look at the job that was made from it. To make one more, add `again`.',
  },
  LETTER_NOT_FOUND: {
    http: 404,
    exit: 3,
    action: 'Check the offset: a letter that was purged, or whose retention is over, never comes back.',
  },
  LETTER_NOT_REPLAYED: {
    http: 409,
    exit: 4,
    action: 'Look at the letter again: see the message for what stands in the way.',
  },
  REPLAY_NOT_FOUND: { http: 404, exit: 3, action: 'Check the id; see `redress replays list`.' },
  REPLAY_WRONG_STATE: {
    http: 409,
    exit: 4,
    action: 'Look at the replay again: it may have moved on since you looked.',
  },
  REASON_REQUIRED: { http: 400, exit: 2, action: 'Say who acts and why: both are kept in the audit trail.' },
  POLICY_INVALID: { http: 422, exit: 2, action: 'Correct the named policy fields.' },
  POLICY_LOCKED: { http: 409, exit: 4, action: 'A locked policy cannot be weakened; declare a new job type instead.' },
  TAXONOMY_INVALID: { http: 500, exit: 2, action: 'Correct the named failure codes.' },
  RULE_INVALID: { http: 500, exit: 2, action: 'Correct the named classification rule.' },
  SQLITE_TOO_OLD: {
    http: 500,
    exit: 1,
    action: 'Run on a Node whose SQLite is 3.51.3 or newer (Node 24.13 or newer).',
  },
  STORE_TOO_NEW: { http: 500, exit: 1, action: 'Run the newer Redress that wrote this store, or restore a backup.' },
  BREAKER_NOT_FOUND: { http: 404, exit: 3, action: 'See `redress breakers list` for those that are there.' },
  BREAKER_FORCED: { http: 409, exit: 4, action: 'End that first: `redress breakers release NAME`.' },
  STORE_NOT_FOUND: {
    http: 503,
    exit: 3,
    action: 'Check --data or --store; `redress start` and `redress worker` create a new store.',
  },
  STORE_NOT_REDRESS: { http: 500, exit: 1, action: 'Choose another file: this one holds something else.' },
  STORE_BUSY: { http: 503, exit: 5, action: 'Another process holds the store; try again shortly.' },
  BACKLOG_FULL: {
    http: 503,
    exit: 5,
    action: 'Submit again when jobs of this type have been worked off, or raise its backlog.max.',
  },
  QUEUE_UNKNOWN: { http: 404, exit: 3, action: 'See `redress queues list` for the queues there are.' },
  STORE_UNREACHABLE: {
    http: 503,
    exit: 5,
    action: 'Check the address, and that the server runs and can be reached from here.',
  },
  STORE_DENIED: { http: 500, exit: 4, action: 'Check user, password and rights.' },
  STORE_SERVER_TOO_OLD: { http: 500, exit: 1, action: 'Use PostgreSQL 14 or newer.' },
  STORE_NOT_DURABLE: {
    http: 500,
    exit: 1,
    action: "Set synchronous_commit to 'on' for this server, database or user.",
  },
  STORE_TOO_OLD: {
    http: 500,
    exit: 1,
    action: 'Bring it up to date with this Redress: `redress migrate`.',
  },
  STORE_NOT_EMPTY: { http: 409, exit: 4, action: 'Copy into an empty store; what is in this one was not touched.' },
  BACKUP_EXISTS: { http: 409, exit: 4, action: 'Choose another name, or add --force to replace that file.' },
  BACKUP_DAMAGED: { http: 500, exit: 1, action: 'Use another backup; nothing was changed.' },
  STORE_IN_USE: {
    http: 409,
    exit: 4,
    action:
      'Stop the programs that use it and try again 30 s later, or add --despite-workers: what they do meanwhile is then not in the copy.',
  },
  STORE_FULL: { http: 507, exit: 1, action: 'Make room on the disk; nothing acknowledged is lost.' },
  STORE_FAILED: { http: 500, exit: 1, action: 'See the cause; nothing acknowledged is lost.' },
  STORE_STOPPED: { http: 503, exit: 5, action: 'Submit before stopping the app, or start a new one.' },
  FAILURE_LOG_FAILED: {
    http: 500,
    exit: 1,
    action: 'Make the failure log writable again; the job is not complete until it is.',
  },
  TX_REQUIRED: {
    http: 500,
    exit: 1,
    action: 'Begin a transaction on this connection first; without one, use `submit`.',
  },
  TX_WRONG_DATABASE: {
    http: 500,
    exit: 1,
    action: 'Open your connection on the file of the store, and keep your own tables in it.',
  },
  TX_UNSUPPORTED: { http: 500, exit: 1, action: 'Submit after your transaction has committed, with a dedupe key.' },
  FAILURE_GROUP_NOT_FOUND: {
    http: 404,
    exit: 3,
    action: 'Check the fingerprint: `redress failures list` shows those there are.',
  },
  FAILURE_GROUP_WRONG_STATE: { http: 409, exit: 4, action: 'Look at the group again: `redress failures show`.' },
  ARTIFACT_KEY_INVALID: { http: 400, exit: 2, action: 'Use another key; see the guide on artifacts for the rules.' },
  ARTIFACT_NOT_FOUND: {
    http: 404,
    exit: 3,
    action: 'Check the key; artifacts are removed after their retention.',
  },
  ARTIFACT_EXISTS: { http: 409, exit: 4, action: 'Choose another key, or remove the artifact that is there.' },
  ARTIFACT_TOO_LARGE: { http: 413, exit: 2, action: 'Send less, or raise the limit named in the message.' },
  ARTIFACT_RANGE_INVALID: { http: 416, exit: 2, action: 'Ask for bytes that the artifact has.' },
  ARTIFACT_MISMATCH: {
    http: 422,
    exit: 2,
    action: 'Send the bytes that were announced: what arrived has another checksum.',
  },
  ARTIFACT_CORRUPT: {
    http: 500,
    exit: 1,
    action: 'Make the artifact again from its source: what is stored is not what was written.',
  },
  STORAGE_FULL: { http: 507, exit: 1, action: 'Make room for artifacts, or shorten their retention.' },
  STORAGE_FAILED: { http: 502, exit: 1, action: 'See the cause; an artifact is stored whole or not at all.' },
  SCHEDULE_INVALID: {
    http: 422,
    exit: 2,
    action: "Correct the named field: cron '0 3 * * *' with timezone 'Europe/Berlin' is every day at 03:00 there.",
  },
  SCHEDULE_DECLARED: {
    http: 409,
    exit: 4,
    action:
      'Pause it; or take it out of the code, stop the programs that declare it, and remove it three minutes later.',
  },
  SCHEDULE_EXISTS: {
    http: 409,
    exit: 4,
    action: 'Declare it under another name, or remove the runtime schedule with `redress schedules remove`.',
  },
  SCHEDULE_NOT_FOUND: { http: 404, exit: 3, action: 'See `redress schedules list` for those that are there.' },
  SIGN_IN_REQUIRED: {
    http: 401,
    exit: 4,
    action: 'Send a token (Authorization: Bearer ...), or sign in with a link: `redress sign-in`.',
  },
  ROLE_TOO_LOW: { http: 403, exit: 4, action: 'Ask an admin for a token with this role and scope.' },
  REQUEST_REFUSED: { http: 403, exit: 4, action: 'Call this server by its own name, from its own pages or a program.' },
  REQUEST_INVALID: { http: 400, exit: 2, action: 'See /openapi.json for what this route takes.' },
  REQUEST_TOO_SLOW: { http: 408, exit: 5, action: 'Send the whole request within the time that the server gives it.' },
  HEADERS_TOO_LARGE: { http: 431, exit: 2, action: 'Send shorter headers and a shorter address.' },
  MEDIA_TYPE_UNSUPPORTED: { http: 415, exit: 2, action: 'Send application/json.' },
  METHOD_NOT_ALLOWED: {
    http: 405,
    exit: 2,
    action: 'Use one of the methods that Allow names; see /openapi.json.',
  },
  ROUTE_NOT_FOUND: { http: 404, exit: 3, action: 'See /openapi.json for the routes there are.' },
  TOO_MANY_REQUESTS: { http: 429, exit: 5, action: 'Wait as long as Retry-After says, then try again.' },
  SERVER_STOPPING: { http: 503, exit: 5, action: 'Wait as long as Retry-After says, then try again.' },
  SERVER_FAILED: { http: 500, exit: 1, action: 'See the log of the server; the answer has the id to look for.' },
  SERVER_UNREACHABLE: { http: 502, exit: 5, action: 'Check the address, and that the server runs.' },
  NOT_READY: { http: 409, exit: 4, action: 'Ask again when the job is complete.' },
  EXPIRED: { http: 404, exit: 3, action: 'Submit the job again: its file was removed when its retention was over.' },
  NOTHING_TO_DOWNLOAD: { http: 404, exit: 3, action: 'See the result of the job instead.' },
  ACCOUNT_NOT_FOUND: { http: 404, exit: 3, action: 'See `redress accounts list`.' },
  ACCOUNT_EXISTS: { http: 409, exit: 4, action: 'Choose another name; one that was disabled stays taken.' },
  TOKEN_NOT_FOUND: { http: 404, exit: 3, action: 'See `redress tokens list`.' },
  OUTPUT_FAILED: {
    http: 500,
    exit: 1,
    action:
      'Make room for what is printed. What was asked for may have been done all the same: look before you do it again.',
  },
  CONFIRMATION_REQUIRED: { http: 400, exit: 2, action: 'Look with --dry-run, then add --yes.' },
  JOB_FAILED: { http: 409, exit: 7, action: 'See `redress jobs explain JOB` for why, and what can be done.' },
  WAIT_TIMEOUT: { http: 504, exit: 5, action: 'It goes on all the same: wait again, or look at it later.' },
  PARTLY_DONE: { http: 409, exit: 6, action: 'See which were not done, and why, in the answer.' },
  USAGE: { http: 400, exit: 2, action: 'See `redress help`.' },
  PACKAGE_MISSING: { http: 500, exit: 2, action: 'Install the package that the message names.' },
  APP_NOT_LOADED: { http: 500, exit: 2, action: 'Give a module that exports an app made by redress().' },
} as const satisfies Record<string, ErrorSpec>

/** A code of the table `ERRORS`. */
export type ErrorCode = keyof typeof ERRORS

export interface ErrorDetails {
  action?: string
  cause?: unknown
  jobId?: string
  /** The job's type: if its table lists this code, the HTTP answer uses the type's message. */
  jobType?: string
  /** One line per thing that is wrong, for errors that name several. */
  problems?: readonly string[]
  /** Before then it is not worth to try again. */
  retryAfterMs?: number
}

/** Every refusal of a call: a code of the table `ERRORS`, a message that names the case, and what to do. */
export class RedressError extends Error {
  override readonly name = 'RedressError'
  readonly code: ErrorCode
  readonly action: string
  readonly jobId: string | undefined
  readonly jobType: string | undefined
  readonly problems: readonly string[]
  readonly retryAfterMs: number | undefined

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause })
    this.code = code
    this.action = details.action ?? ERRORS[code].action
    this.jobId = details.jobId
    this.jobType = details.jobType
    this.problems = details.problems ?? []
    this.retryAfterMs = details.retryAfterMs
  }

  get httpStatus(): number {
    return ERRORS[this.code].http
  }

  get exitCode(): number {
    return ERRORS[this.code].exit
  }

  toJSON(): object {
    return {
      code: this.code,
      message: this.message,
      action: this.action,
      ...(this.jobId === undefined ? {} : { jobId: this.jobId }),
      ...(this.problems.length === 0 ? {} : { problems: this.problems }),
    }
  }
}
