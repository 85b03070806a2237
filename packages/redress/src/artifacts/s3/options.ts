// Apart from the client, so that these types can be read where the S3 client is not installed.
import type { Clock } from '../../runtime/clock.ts'
import type { Log } from '../../runtime/log.ts'

/** The keys for a bucket. */
export interface S3Credentials {
  accessKeyId: string
  secretAccessKey: string
  sessionToken?: string | undefined
}

export interface S3Target {
  bucket: string
  /** Ends with a slash, or is empty. */
  prefix: string
  region: string
  endpoint: string
  forcePathStyle: boolean
  credentials: S3Credentials | (() => Promise<S3Credentials>)
}

export interface S3Timeouts {
  connectTimeoutMs?: number | undefined
  /** From sending a request to the beginning of its answer; one part of an upload lies in between. */
  requestTimeoutMs?: number | undefined
}

export interface S3Tuning extends S3Timeouts {
  /** Memory used by one put is (partsInFlight + 1) times this; 10,000 parts are the largest artifact. */
  partBytes?: number | undefined
  partsInFlight?: number | undefined
  /** How long a body that is being read may give nothing. */
  idleTimeoutMs?: number | undefined
}

export interface S3Options extends S3Tuning {
  target: S3Target
  clock?: Clock | undefined
  log?: Log | undefined
}
