import { createHash } from 'node:crypto'
import { isMissing, openStores } from '@redress/shared/artifact-stores'
import type { Environment } from '@redress/shared/settings'
import { type Log, RedressError } from 'redress'
import type { ArtifactStore } from 'redress/artifacts'
import { SaxesParser } from 'saxes'
import type { Settings } from './settings.ts'

/**
 * The uploaded PDFs and their XML. A file's name follows from the job's id, so no request can name another owner's
 * file.
 */
export interface Files {
  uploads: ArtifactStore
  results: ArtifactStore
}

export const sourceKey = (jobId: string): string => `${jobId}.pdf`
export const resultKey = (jobId: string): string => `${jobId}.xml`
/** The job whose file this is. */
export const jobOfKey = (key: string): string => key.replace(/\.(pdf|xml)$/, '')

export async function openFiles({ uploads, results, space }: Settings, env: Environment, log: Log): Promise<Files> {
  const opened = await openStores(uploads.url, results.url, { appName: 'pdf-xml', space, env, log })
  return { uploads: opened.sources, results: opened.products }
}

/** Our gateway sends at most 256 MB, and nests only a few elements. */
const XML_BYTES_MAX = 256 * 2 ** 20
const XML_DEPTH_MAX = 1_000

/** Passes XML through; throws if it is not well-formed or ends early. */
export async function* wellFormed(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const parser = new SaxesParser()
  parser.on('error', (error) => {
    throw new NotWellFormed(error.message)
  })
  // The parser keeps every open element in memory. Without a limit, endless nesting would exhaust it.
  let depth = 0
  parser.on('opentag', ({ isSelfClosing }) => {
    if (!isSelfClosing && ++depth > XML_DEPTH_MAX) throw new NotWellFormed('it is nested too deeply')
  })
  parser.on('closetag', ({ isSelfClosing }) => {
    if (!isSelfClosing) depth--
  })
  let bytes = 0
  const decoder = new TextDecoder('utf-8', { fatal: true })
  const read = (bytes?: Uint8Array) => {
    try {
      return bytes === undefined ? decoder.decode() : decoder.decode(bytes, { stream: true })
    } catch {
      throw new NotWellFormed('it is not UTF-8')
    }
  }
  for await (const chunk of chunks) {
    bytes += chunk.byteLength
    if (bytes > XML_BYTES_MAX) throw new TooMuchXml()
    parser.write(read(chunk))
    yield chunk
  }
  parser.write(read())
  parser.close()
}

export class NotWellFormed extends Error {
  override readonly name = 'NotWellFormed'
}

export class TooMuchXml extends Error {
  override readonly name = 'TooMuchXml'
}

/** The result that an attempt before this one left (D31): only when all of it is there and it is XML. */
export async function existingResult(
  results: ArtifactStore,
  jobId: string,
): Promise<{ bytes: number; sha256: string } | null> {
  try {
    const { body } = await results.get(resultKey(jobId), { verify: true })
    const hash = createHash('sha256')
    let bytes = 0
    for await (const chunk of wellFormed(body)) {
      bytes += chunk.byteLength
      hash.update(chunk)
    }
    return { bytes, sha256: hash.digest('hex') }
  } catch (error) {
    const isUseless =
      error instanceof NotWellFormed ||
      error instanceof TooMuchXml ||
      (error instanceof RedressError && error.code === 'ARTIFACT_CORRUPT')
    if (isMissing(error) || isUseless) return null
    throw error
  }
}
