import { type Duration, durationMs } from '../core/duration.ts'
import { RedressError } from '../core/errors.ts'
import { ROLLUPS, type Rollup } from '../core/policy-flow.ts'
import type { NewBatch } from '../store/batches.ts'
import type { JobRequest } from './job-type.ts'
import { checkOwnerAndId } from './submission.ts'

export interface BatchOptions {
  /** Whose batch it is; its jobs are that owner's too, where they do not say otherwise. */
  owner?: string
  /** What it comes to when some failed; as the policy of the first job's type says when left out. */
  rollup?: Rollup
  /** How long after its making it expires, for good. Never when left out. */
  expires?: Duration
  /** Anything of yours that JSON can hold. */
  data?: object
  /** A job that is submitted each time the batch is settled; it finds the outcome as `batch` in its input. */
  onSettled?: { job: { readonly name: string } | string; input?: object }
  /** Channels that are told when it is settled; as the policy of the first job's type says when left out. */
  notify?: readonly string[]
  /** Its jobs, made together with it: all or none. They are all it will have, unless it stays `open`. */
  jobs?: readonly JobRequest[]
  /** Jobs may be added until it is sealed. True when no `jobs` are given. */
  open?: boolean
  /** A UUID of your own, so that you can make it again after an unknown answer without making a second one. */
  id?: string
}

const NAME_CHARS_MAX = 200
const DATA_CHARS_MAX = 64 * 1024
const CHANNEL_NAME = /^[A-Za-z][\w.:-]{0,99}$/

/** Checked, and put in the store's words. */
export function newBatch(name: string, options: BatchOptions, makeId: () => string): NewBatch {
  if (typeof options !== 'object' || options === null) throw invalid('the options of a batch must be an object')
  const { owner, rollup, expires, data = {}, onSettled, notify, jobs, open = jobs === undefined, id } = options
  if (typeof name !== 'string' || name.trim() === '' || name.length > NAME_CHARS_MAX) {
    throw invalid(`the name of a batch must be a text of 1 to ${NAME_CHARS_MAX} characters`)
  }
  checkOwnerAndId(options)
  if (rollup !== undefined && !ROLLUPS.includes(rollup)) {
    throw invalid(`rollup must be one of ${ROLLUPS.join(', ')}, not ${String(rollup)}`)
  }
  if (jobs !== undefined && !Array.isArray(jobs)) throw invalid('jobs must be a list, each made with `with`')
  if (notify !== undefined && !Array.isArray(notify)) throw invalid('notify must be a list of names of channels')
  const expiresInMs = expires === undefined ? null : durationMs(expires, 'expires')
  if (expiresInMs === 0) throw invalid('expires: a batch must last longer than nothing')
  const strange = notify?.find((channel) => !CHANNEL_NAME.test(channel))
  if (strange !== undefined) throw invalid(`notify: ${JSON.stringify(strange)} is not the name of a channel`)
  const elsewhere = jobs?.findIndex((job) => job.options?.batch !== undefined) ?? -1
  if (elsewhere >= 0) throw invalid(`job ${elsewhere} (counted from 0) names a batch of its own`)
  return {
    id: id ?? makeId(),
    name,
    owner: owner ?? null,
    rollup: rollup ?? null,
    isSealed: !open,
    expiresInMs,
    data: packObject(data, 'data'),
    onSettled: onSettled === undefined ? null : toOnSettled(onSettled),
    notify: notify ?? null,
  }
}

function toOnSettled({ job, input = {} }: NonNullable<BatchOptions['onSettled']>): NewBatch['onSettled'] {
  const type = typeof job === 'string' ? job : job?.name
  if (typeof type !== 'string') throw invalid('onSettled.job must be a job type, or its name')
  if ('batch' in input) throw invalid('onSettled.input: `batch` is where the outcome goes')
  return { type, input: packObject(input, 'onSettled.input') }
}

function packObject(value: object, field: string): string {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw invalid(`${field} must be an object`)
  let text: string
  try {
    text = JSON.stringify(value)
  } catch (error) {
    throw new RedressError('PAYLOAD_NOT_JSON', `${field} cannot be written as JSON.`, { cause: error })
  }
  if (text.length <= DATA_CHARS_MAX) return text
  throw new RedressError(
    'PAYLOAD_TOO_LARGE',
    `${field} has ${text.length} characters; at most ${DATA_CHARS_MAX} are taken.`,
  )
}

const invalid = (message: string) => new RedressError('OPTION_INVALID', `${message}.`)
