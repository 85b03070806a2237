import type { Readable } from 'node:stream'
import type { ArtifactStore } from 'redress/artifacts'
import { FetchFailure } from '../failures/failure.ts'
import { uploadFailure } from './upload-failure.ts'

/** What an upload needs to know of what was downloaded. */
export interface Uploadable {
  sha256: string
  bytes: number
  contentType: string | null
  contentEncoding: string | null
  open(): Readable
}

export interface UploadOptions {
  store: ArtifactStore
  key: string
  /**
   * How it is looked at after the write. `head` asks the store for length and checksum: an object store has checked each
   * part against the SHA-256 sent with it, and a folder has synced the file. `read` fetches every byte again.
   */
  verification?: 'head' | 'read'
  nowMs(): number
  signal?: AbortSignal
}

export interface Uploaded {
  key: string
  bytes: number
  sha256: string
}

/** Stores it whole and looks at it again. Putting it twice stores it once: the key is the resource's own. */
export async function upload(spooled: Uploadable, options: UploadOptions): Promise<Uploaded> {
  const { store, key, signal, verification = 'head' } = options
  const { sha256, bytes } = spooled
  try {
    const described = { contentType: contentTypeOf(spooled), contentEncoding: contentEncodingOf(spooled) }
    await store.put(key, spooled.open(), { sha256, ...described, signal })
    const found = await look(store, key, verification, signal)
    if (found.bytes !== bytes || (found.sha256 !== null && found.sha256 !== sha256)) {
      throw new FetchFailure('UPLOAD_CHECKSUM', `${key} was stored with ${found.bytes} bytes, ${bytes} were sent`, {
        context: { bytes, bytesStored: found.bytes, sha256, sha256Stored: found.sha256 },
      })
    }
    return { key, bytes, sha256 }
  } catch (error) {
    // The reason of an abort is the caller's own.
    if (signal?.aborted === true) throw signal.reason
    throw error instanceof FetchFailure ? error : uploadFailure(error, key, options.nowMs())
  }
}

async function look(
  store: ArtifactStore,
  key: string,
  verification: 'head' | 'read',
  signal: AbortSignal | undefined,
): Promise<{ bytes: number; sha256: string | null }> {
  return verification === 'read' ? store.verify(key, { signal }) : store.head(key, { signal })
}

/** An origin may send any bytes for a header; what the store cannot keep is left out. */
function contentTypeOf({ contentType }: Uploadable): string | undefined {
  return contentType !== null && /^[\x20-\x7e]{1,200}$/.test(contentType) ? contentType : undefined
}

function contentEncodingOf({ contentEncoding }: Uploadable): string | undefined {
  return contentEncoding !== null && /^[\w.+-]{1,40}(, ?[\w.+-]{1,40}){0,4}$/.test(contentEncoding)
    ? contentEncoding
    : undefined
}
