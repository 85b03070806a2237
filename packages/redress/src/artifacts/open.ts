import { fileURLToPath } from 'node:url'
import { RedressError } from '../core/errors.ts'
import { optionNames, refuseUnknownOptions } from '../core/text/options.ts'
import type { ArtifactStore } from './artifact-store.ts'
import { FolderArtifacts, type FolderOptions } from './folder/store.ts'
import { isKey } from './key.ts'
import type { S3Credentials, S3Options, S3Target, S3Tuning } from './s3/options.ts'

/** The options of `artifactStore()`. */
export interface ArtifactStoreOptions extends Pick<FolderOptions, 'limits' | 'onPressure' | 'clock'> {
  /** `file:./data/artifacts`, `file:///srv/artifacts`, or `s3://bucket/prefix?region=...&endpoint=...&forcePathStyle=...` */
  url: string
  /** For an S3 store. Only these are used: nothing is looked up in the environment or in files. */
  credentials?: S3Credentials | (() => Promise<S3Credentials>) | undefined
  s3?: S3Tuning | undefined
  log?: S3Options['log']
}

const OPTIONS = optionNames<ArtifactStoreOptions>({
  url: true,
  credentials: true,
  s3: true,
  limits: true,
  onPressure: true,
  clock: true,
  log: true,
})
const S3_OPTIONS = optionNames<S3Tuning>({
  connectTimeoutMs: true,
  requestTimeoutMs: true,
  partBytes: true,
  partsInFlight: true,
  idleTimeoutMs: true,
})

const URL_MISSING = "is missing: call artifactStore({ url: 'file:./data/artifacts' })"

/** Opens the store that the URL names. Nothing is sent to an S3 store until it is used. */
export async function artifactStore(options: ArtifactStoreOptions): Promise<ArtifactStore> {
  if (typeof options !== 'object') throw invalid(URL_MISSING)
  refuseUnknownOptions('artifactStore()', options, OPTIONS)
  const { url, credentials, s3 = {}, limits, onPressure, clock, log } = options
  refuseUnknownOptions('artifactStore(): s3', s3, S3_OPTIONS)
  if (typeof url !== 'string') throw invalid(URL_MISSING)
  if (url.startsWith('file:')) {
    return FolderArtifacts.open({ path: folderPath(url), limits, onPressure, clock })
  }
  if (url.startsWith('s3:')) {
    const { S3Artifacts } = await import('./s3/store.ts')
    return S3Artifacts.open({ ...s3, target: s3Target(url, credentials), clock, log })
  }
  throw invalid('must begin with file: or s3:, as in file:./data/artifacts')
}

function folderPath(url: string): string {
  const path = url.slice('file:'.length)
  if (path === '') throw invalid('names no folder, as file:./data/artifacts would')
  if (!path.startsWith('//')) return path
  try {
    return fileURLToPath(url)
  } catch (cause) {
    throw invalid('with two slashes needs the whole path, as in file:///srv/artifacts', cause)
  }
}

const S3_PARAMETERS = ['endpoint', 'region', 'forcePathStyle']
const BUCKET_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]$/
const REGION = /^[A-Za-z0-9-]{1,40}$/

function s3Target(url: string, credentials: ArtifactStoreOptions['credentials']): S3Target {
  const parsed = URL.parse(url)
  if (parsed === null) throw invalid('is not a URL, as s3://bucket/prefix?region=eu-central-1 would be')
  // Checked first, and never shown: a message with a URL in it ends in a log.
  if (parsed.username !== '' || parsed.password !== '')
    throw invalid('must not hold credentials: give them as an option')
  const bucket = parsed.host
  if (!BUCKET_NAME.test(bucket))
    throw invalid('names no bucket after s3://: a name has 3 to 63 letters, digits, ".", "_" or "-"')
  const given = Object.fromEntries(parsed.searchParams)
  const unknown = Object.keys(given).find((name) => !S3_PARAMETERS.includes(name))
  if (unknown !== undefined) throw invalid(`has the parameter ${unknown}; known are ${S3_PARAMETERS.join(', ')}`)
  if (given.region === undefined && given.endpoint === undefined) throw invalid('needs a region or an endpoint')
  const { region = 'us-east-1' } = given
  if (!REGION.test(region)) throw invalid('has an invalid region')
  return {
    bucket,
    prefix: objectPrefix(parsed.pathname),
    region,
    endpoint: given.endpoint === undefined ? awsEndpoint(region) : checkedEndpoint(given.endpoint),
    forcePathStyle: pathStyle(given.forcePathStyle, given.endpoint !== undefined),
    credentials: checkedCredentials(credentials),
  }
}

const PREFIX_CHARS_MAX = 300

function objectPrefix(pathname: string): string {
  const prefix = decoded(pathname.replace(/^\/+|\/+$/g, ''))
  if (prefix === '') return ''
  if (prefix.length > PREFIX_CHARS_MAX) throw invalid(`has a prefix of more than ${PREFIX_CHARS_MAX} characters`)
  if (!isKey(prefix)) throw invalid('has a prefix with parts that no key may have')
  return `${prefix}/`
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch (cause) {
    throw invalid('has a percent sign that encodes nothing', cause)
  }
}

/** Said and not left to the SDK, which would first look whether the environment names another one. */
function awsEndpoint(region: string): string {
  return `https://s3.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}`
}

function checkedEndpoint(endpoint: string): string {
  const parsed = URL.parse(endpoint)
  const isPlain = parsed !== null && /^https?:$/.test(parsed.protocol) && parsed.username === '' && parsed.search === ''
  if (!isPlain) throw invalid('has an endpoint that is not a plain http or https URL')
  return endpoint
}

function pathStyle(given: string | undefined, isOtherStore: boolean): boolean {
  if (given === undefined) return isOtherStore
  if (given !== 'true' && given !== 'false') throw invalid('has forcePathStyle other than true or false')
  return given === 'true'
}

function checkedCredentials(credentials: ArtifactStoreOptions['credentials']): S3Target['credentials'] {
  if (typeof credentials === 'function') return credentials
  if (!credentials?.accessKeyId || !credentials.secretAccessKey) {
    throw new RedressError(
      'OPTION_INVALID',
      'An S3 store needs credentials with accessKeyId and secretAccessKey, or a function that gives them.',
    )
  }
  return credentials
}

function invalid(problem: string, cause?: unknown): RedressError {
  return new RedressError('OPTION_INVALID', `The URL of the artifact store ${problem}.`, { cause })
}
