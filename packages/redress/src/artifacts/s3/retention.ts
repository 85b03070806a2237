import type { ListMultipartUploadsCommandOutput } from '@aws-sdk/client-s3'
import type { ArtifactPage, ListOptions, RetentionOptions, RetentionStep, SweepOptions } from '../artifact-store.ts'
import { checkedAge, isKey, pageBounds } from '../key.ts'
import { answerOf, attempting, type Bucket } from './bucket.ts'

/** A store tells when an upload began, not when it last went on, and a large one takes its time. */
const SWEEP_AFTER_MS = 24 * 3_600_000
const REMOVALS_AT_ONCE = 8

interface ListedObject {
  key: string
  bytes: number
  modifiedAtMs: number
  etag: string | undefined
}

export async function listPage(bucket: Bucket, options: ListOptions): Promise<ArtifactPage> {
  const { objects, next } = await listObjects(bucket, options)
  return { artifacts: objects.map(({ key, bytes, modifiedAtMs }) => ({ key, bytes, modifiedAtMs })), next }
}

async function listObjects(bucket: Bucket, options: ListOptions) {
  const { prefix, after, limit, signal } = pageBounds(options)
  const command = new bucket.sdk.ListObjectsV2Command({
    Bucket: bucket.name,
    Prefix: bucket.prefix + prefix,
    ...(after === '' ? {} : { StartAfter: bucket.prefix + after }),
    MaxKeys: limit,
  })
  const { Contents = [], IsTruncated } = await attempting('listing artifacts', signal, () =>
    bucket.send(command, signal),
  )
  const objects = Contents.map(
    ({ Key = '', Size = 0, LastModified, ETag }): ListedObject => ({
      key: Key.slice(bucket.prefix.length),
      bytes: Size,
      modifiedAtMs: LastModified?.getTime() ?? 0,
      etag: ETag,
    }),
  )
  const last = objects.at(-1)?.key ?? null
  // Other programs may use the bucket too: what no key of ours can name is not ours to list, let alone to remove.
  return { objects: objects.filter(({ key }) => isKey(key)), next: IsTruncated === true ? last : null }
}

export async function removeOld(bucket: Bucket, options: RetentionOptions, beforeMs: number): Promise<RetentionStep> {
  const { objects, next } = await listObjects(bucket, options)
  const old = objects.filter(({ modifiedAtMs }) => modifiedAtMs < beforeMs)
  let removed = 0
  let bytesRemoved = 0
  const removeNext = async () => {
    for (let object = old.pop(); object !== undefined; object = old.pop()) {
      options.signal?.throwIfAborted()
      const { key, bytes, modifiedAtMs } = object
      if ((await options.keep?.({ key, bytes, modifiedAtMs })) === true) continue
      if (!(await removeListed(bucket, object, options.signal))) continue
      removed++
      bytesRemoved += bytes
    }
  }
  await Promise.all(Array.from({ length: REMOVALS_AT_ONCE }, removeNext))
  return { removed, bytesRemoved, next }
}

/** Only the object that was listed: a fresh one may have taken its place since. */
async function removeListed(bucket: Bucket, { key, etag }: ListedObject, signal?: AbortSignal): Promise<boolean> {
  const { DeleteObjectCommand } = bucket.sdk
  const send = (condition: { IfMatch?: string | undefined }) =>
    bucket.send(new DeleteObjectCommand({ ...bucket.object(key), ...condition }), signal)
  return attempting(`removing ${key}`, signal, async () => {
    try {
      await send({ IfMatch: etag })
    } catch (error) {
      const { code, status } = answerOf(error)
      if (code === 'PreconditionFailed' || code === 'NoSuchKey') return false
      if (status !== 501) throw error
      // A store that knows no conditions.
      await send({})
    }
    return true
  })
}

/** Removes the parts of uploads that were begun long ago and never completed: their writers are gone. */
export async function sweepUploads(
  bucket: Bucket,
  { olderThanMs = SWEEP_AFTER_MS, signal }: SweepOptions,
  nowMs: number,
): Promise<{ removed: number }> {
  const { ListMultipartUploadsCommand, AbortMultipartUploadCommand } = bucket.sdk
  const beforeMs = nowMs - checkedAge(olderThanMs, Number.NEGATIVE_INFINITY)
  let removed = 0
  let marker: { KeyMarker?: string | undefined; UploadIdMarker?: string | undefined } | null = {}
  while (marker !== null) {
    const command = new ListMultipartUploadsCommand({ Bucket: bucket.name, Prefix: bucket.prefix, ...marker })
    const page: ListMultipartUploadsCommandOutput = await attempting('listing uploads', signal, () =>
      bucket.send(command, signal),
    )
    for (const { Key = '', UploadId, Initiated } of page.Uploads ?? []) {
      const isOld = (Initiated?.getTime() ?? nowMs) < beforeMs
      if (!isOld || !isKey(Key.slice(bucket.prefix.length))) continue
      const abort = new AbortMultipartUploadCommand({ Bucket: bucket.name, Key, UploadId })
      await attempting(`removing parts of ${Key}`, signal, () => bucket.send(abort, signal))
      removed++
    }
    marker =
      page.IsTruncated === true ? { KeyMarker: page.NextKeyMarker, UploadIdMarker: page.NextUploadIdMarker } : null
  }
  return { removed }
}
