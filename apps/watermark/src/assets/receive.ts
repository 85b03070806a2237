import { plainFileName } from '@redress/shared/file-names'
import { Refused } from '@redress/shared/refused'
import type { FastifyRequest } from 'fastify'
import { RedressError } from 'redress'
import type { ArtifactStore, StoredArtifact } from 'redress/artifacts'

interface ReceivedFile extends StoredArtifact {
  fileName: string
}

/**
 * Takes the one file of a form while it arrives: counted, hashed, and stored before anybody is told that we have it. What
 * is refused leaves nothing behind.
 */
export async function receiveFile(
  request: FastifyRequest,
  store: ArtifactStore,
  key: string,
  bytesMax: number,
): Promise<ReceivedFile> {
  let received: ReceivedFile | null = null
  try {
    // The store counts, and stops at the first byte too many; the reader of forms would hand over a file cut short.
    const limits = { files: 1, fields: 10, parts: 11, fieldSize: 1_000, fileSize: bytesMax + 1 }
    for await (const part of request.parts({ limits })) {
      if (part.type === 'field') continue
      // A form that was sent without choosing one has a file without a name.
      if (part.filename === '') part.file.resume()
      else {
        const stored = await store.put(key, part.file, { bytesMax, keepBodyOpen: true })
        received = { ...stored, fileName: plainFileName(part.filename, 'unnamed') }
      }
    }
  } catch (error) {
    // Somebody who still sends would not read an answer: the rest is read, and thrown away.
    request.raw.unpipe()
    request.raw.resume()
    if (received !== null) await store.remove(key)
    throw refusalOf(error, request, bytesMax)
  }
  if (received === null) throw invalid('There is no file in this form.')
  if (received.bytes > 0) return received
  await store.remove(key)
  throw invalid('The file in this form is empty.')
}

function refusalOf(error: unknown, { raw }: FastifyRequest, bytesMax: number): unknown {
  if (error instanceof RedressError && error.code === 'ARTIFACT_TOO_LARGE') {
    return new Refused({
      status: 413,
      code: 'TOO_LARGE',
      message: `The file has more than ${Math.floor(bytesMax / 2 ** 20)} MB.`,
      action: 'Make it smaller, or ask for a higher limit.',
    })
  }
  if (error instanceof RedressError) return error
  const { statusCode = 500 } = (error ?? {}) as { statusCode?: number }
  // Who hung up in the middle will not read this either; but it is no fault of ours.
  const isTheirs =
    (statusCode >= 400 && statusCode < 500) || raw.destroyed || /unexpected end|boundary/i.test(`${error}`)
  return isTheirs ? invalid('This is not a form with one file in it.') : error
}

const invalid = (message: string): Refused =>
  new Refused({
    status: 400,
    code: 'REQUEST_INVALID',
    message,
    action: 'Send multipart/form-data with the file as `file`.',
  })
