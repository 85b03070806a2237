import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { expect } from 'vitest'
import type { ArtifactStore, GetOptions } from '../../src/artifacts/artifact-store.ts'
import { type ErrorCode, RedressError } from '../../src/core/errors.ts'

export const sha256 = (data: string | Uint8Array): string => createHash('sha256').update(data).digest('hex')

/** Bytes that differ from place to place and from seed to seed, so that a mixture of two shows. */
export function someBytes(length: number, seed = 1): Buffer {
  const bytes = Buffer.alloc(length, `${seed}:`)
  for (let at = 0; at + 8 <= length; at += 4096) bytes.writeDoubleBE(at + seed, at)
  return bytes
}

/** As they come from a network: in pieces of no particular size. */
export function streamOf(bytes: Uint8Array, pieceBytes = 60_001): Readable {
  return Readable.from(pieces(bytes, pieceBytes), { objectMode: false })
}

function* pieces(bytes: Uint8Array, pieceBytes: number): Generator<Uint8Array> {
  for (let at = 0; at < bytes.byteLength; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes)
}

export async function contentOf(store: ArtifactStore, key: string, options?: GetOptions): Promise<Buffer> {
  return buffer((await store.get(key, options)).body)
}

export async function keysOf(store: ArtifactStore, prefix = ''): Promise<string[]> {
  const keys: string[] = []
  for (let after: string | null = ''; after !== null; ) {
    const page = await store.list({ prefix, after })
    keys.push(...page.artifacts.map(({ key }) => key))
    after = page.next
  }
  return keys
}

export async function refused(code: ErrorCode, work: Promise<unknown>): Promise<RedressError> {
  const error = await work.then(
    () => null,
    (thrown) => thrown,
  )
  expect(error).toBeInstanceOf(RedressError)
  expect(error).toMatchObject({ code })
  return error as RedressError
}
