import { createHash } from 'node:crypto'
import type { BigIntStats } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import {
  type ArtifactContent,
  type ArtifactHead,
  artifactCorrupt,
  artifactNotFound,
  type GetOptions,
  rangeInvalid,
  type Verification,
} from '../artifact-store.ts'
import { checked, checkRange, sha256Check } from '../body.ts'
import { type Place, type Root, readOnlySidecar, readSidecar, type Sidecar, sidecarPath, versionOf } from './place.ts'
import { isOtherCase } from './writing.ts'

const CHUNK_BYTES = 256 * 1024
/** How often an artifact may be replaced between our looking at it and at its sidecar. */
const REPLACED_TRIES = 100

export interface Opened {
  file: FileHandle
  head: ArtifactHead
  sidecar: Sidecar | null
}

/** Opens the artifact together with what is known about exactly these bytes. */
export async function openArtifact(root: Root, place: Place): Promise<Opened> {
  for (let tries = 1; ; tries++) {
    const opened = await root.openFile(place)
    if (opened === null) throw artifactNotFound(place.key)
    const { file, stats } = opened
    try {
      let sidecar = await readSidecar(sidecarPath(place, versionOf(stats)))
      if (sidecar === null) {
        const isReplaced = await wasReplaced(root, place, stats)
        if (!isReplaced) sidecar = await readOnlySidecar(root, place)
        else if (tries < REPLACED_TRIES) {
          await file.close()
          continue
        }
      }
      if (sidecar !== null && isOtherCase(sidecar.key, place.key)) throw artifactNotFound(place.key)
      return { file, sidecar, head: headOf(place.key, stats, sidecar) }
    } catch (error) {
      await file.close()
      throw error
    }
  }
}

/** What is known of the artifact without opening it; where that is not plain, it is opened. */
export async function headOfArtifact(root: Root, place: Place): Promise<ArtifactHead> {
  const stats = await root.look(place)
  if (stats?.isFile() === true) {
    const sidecar = await readSidecar(sidecarPath(place, versionOf(stats)))
    if (sidecar !== null && !isOtherCase(sidecar.key, place.key)) return headOf(place.key, stats, sidecar)
  }
  const { file, head } = await openArtifact(root, place)
  await file.close()
  return head
}

/** The sidecar is gone because the artifact was replaced: the opened file is an older version of the key. */
async function wasReplaced(root: Root, place: Place, stats: BigIntStats): Promise<boolean> {
  const now = await root.look(place)
  return now === null || versionOf(now) !== versionOf(stats)
}

function headOf(key: string, { size, mtimeMs }: BigIntStats, sidecar: Sidecar | null): ArtifactHead {
  return {
    key,
    bytes: Number(size),
    sha256: sidecar?.sha256 ?? null,
    contentType: sidecar?.contentType ?? null,
    contentEncoding: sidecar?.contentEncoding ?? null,
    modifiedAtMs: Number(mtimeMs),
  }
}

/** Hands the open file over to a stream, which closes it. */
export function contentOf({ file, head, sidecar }: Opened, { range, verify, signal }: GetOptions): ArtifactContent {
  const { key, bytes, sha256 } = head
  // A file that was cut short shows at once, without reading it.
  if (sidecar !== null && sidecar.bytes !== bytes) throw artifactCorrupt(key)
  const resolved = range === undefined ? null : within(key, bytes, range)
  const stream = file.createReadStream({ highWaterMark: CHUNK_BYTES, ...resolved })
  // The comparison needs every byte, so a part of an artifact is never compared.
  const isChecked = verify === true && sha256 !== null && resolved === null
  const body: Readable = isChecked ? checked(stream, key, sha256Check(sha256)) : stream
  destroyOnAbort(body, signal)
  return { ...head, body, range: resolved }
}

function within(key: string, bytes: number, range: { start: number; end?: number | undefined }) {
  const { start, end } = range
  checkRange(key, range)
  if (start >= bytes) throw rangeInvalid(key, start, end)
  return { start, end: Math.min(end ?? bytes, bytes - 1) }
}

export async function verifyContent(opened: Opened, signal: AbortSignal | undefined): Promise<Verification> {
  const { file, sidecar } = opened
  const hash = createHash('sha256')
  let bytes = 0
  const body = file.createReadStream({ highWaterMark: CHUNK_BYTES })
  destroyOnAbort(body, signal)
  for await (const chunk of body) {
    hash.update(chunk)
    bytes += chunk.length
  }
  const sha256 = hash.digest('hex')
  const verdict = sidecar === null ? 'unknown' : sidecar.sha256 === sha256 ? 'intact' : 'corrupt'
  return { verdict, bytes, sha256 }
}

function destroyOnAbort(body: Readable, signal: AbortSignal | undefined): void {
  if (signal === undefined) return
  const abort = () => void body.destroy(signal.reason)
  if (signal.aborted) abort()
  signal.addEventListener('abort', abort, { once: true })
  body.once('close', () => signal.removeEventListener('abort', abort))
}
