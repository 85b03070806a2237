import { createHash } from 'node:crypto'
import { type ArtifactStore, keyPart } from 'redress/artifacts'
import { isSealed, type Sealer } from '../sealer.ts'

/** One thing to fetch, as a client names it or a handler makes it. */
export interface Resource {
  /** Unique within its job. */
  id: string
  url: string
  headers?: Readonly<Record<string, string>>
  /** The expected SHA-256, in hex. */
  sha256?: string
}

/** A client's request. */
export interface Requested {
  resources: readonly Resource[]
  /** Free data for the handler of the job type. */
  metadata: Readonly<Record<string, unknown>>
}

/** The stored record of an accepted request. It is written before the jobs. */
export interface Manifest extends Requested {
  version: 1
  id: string
  type: string
  tenant: string
  createdAt: string
  /** Of the request as the client sent it: by this, a repetition is known from another request with the same key. */
  digest: string
}

export const MANIFESTS = 'manifests/'
export const RESOURCES = 'resources/'

export const manifestKey = (type: string, jobId: string): string =>
  `${MANIFESTS}${keyPart(type)}/${jobId}/metadata.json`
export const resourcePrefix = (type: string, jobId: string): string => `${RESOURCES}${keyPart(type)}/${jobId}/`
export const resourceKey = (type: string, jobId: string, resource: string): string =>
  resourcePrefix(type, jobId) + keyPart(resource)

/** The job of an artifact; null if the artifact is not ours. */
export const jobOfKey = (key: string): string | null =>
  /^(?:manifests|resources)\/[^/]+\/([^/]+)\//.exec(key)?.[1] ?? null

/**
 * The same value for the same request, whatever the order of its fields and its whitespace. For a request with
 * headers it is keyed: an attacker could guess a short password in a header from a plain hash.
 */
export function digestOf(type: string, { resources, metadata }: Requested, sealer: Sealer): string {
  const text = JSON.stringify(sorted({ type, resources, metadata }))
  const hasHeaders = resources.some(({ headers }) => headers !== undefined)
  return hasHeaders ? sealer.digest(text) : createHash('sha256').update(text).digest('hex')
}

/** A header can be decrypted only in its own job and under its own name. */
const aboutHeader = (job: string, name: string): string => `${job} ${name.toLowerCase()}`

/** Header values may be credentials, so they are never stored in plain text. Their names stay readable. */
export function sealHeaders(resource: Resource, job: string, sealer: Sealer): Resource {
  const { headers } = resource
  if (headers === undefined) return resource
  const sealed = Object.entries(headers).map(([name, value]) => [name, sealer.seal(value, aboutHeader(job, name))])
  return { ...resource, headers: Object.fromEntries(sealed) }
}

/** Null if one of them cannot be decrypted. An unsealed value was written by an operator, for a replay. */
export function openHeaders(
  headers: Readonly<Record<string, string>>,
  job: string,
  sealer: Sealer,
): Record<string, string> | null {
  const opened: [string, string][] = []
  for (const [name, value] of Object.entries(headers)) {
    const text = isSealed(value) ? sealer.open(value, aboutHeader(job, name)) : value
    if (text === null) return null
    opened.push([name, text])
  }
  return Object.fromEntries(opened)
}

/** The reader of requests bounds the depth. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).map(([key, part]) => [key, sorted(part)] as const)
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)))
}

export async function readManifest(storage: ArtifactStore, key: string): Promise<Manifest> {
  const { body } = await storage.get(key, { verify: true })
  const chunks: Buffer[] = []
  for await (const chunk of body) chunks.push(chunk as Buffer)
  return JSON.parse(Buffer.concat(chunks).toString('utf8')) as Manifest
}
