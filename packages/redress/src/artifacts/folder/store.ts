import type { BigIntStats } from 'node:fs'
import { lstat, rmdir, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { type Clock, systemClock } from '../../runtime/clock.ts'
import type * as Api from '../artifact-store.ts'
import { artifactExists, checkOptionNames, type ListedArtifact } from '../artifact-store.ts'
import { readingFrom } from '../body.ts'
import { checkedAge, isKey, pageBounds } from '../key.ts'
import { attempting, dropSidecar, isMissing, type Place, parseSidecarName, Root, versionOf } from './place.ts'
import { contentOf, headOfArtifact, openArtifact, verifyContent } from './reading.ts'
import { Space, type SpaceLimits } from './space.ts'
import { write } from './writing.ts'

const SWEEP_AFTER_MS = 3_600_000

export interface FolderOptions {
  path: string
  clock?: Clock | undefined
  /** Replaces the default limits: 512 MiB free (soft) and 64 MiB free (hard). */
  limits?: SpaceLimits | undefined
  /** Called when `put` or `pressure()` finds that the pressure has changed. */
  onPressure?: ((pressure: Api.Pressure, usage: Api.Usage) => void) | undefined
}

/** Artifacts as plain files: the key is the path under the folder. */
export class FolderArtifacts implements Api.ArtifactStore {
  readonly #root: Root
  readonly #space: Space
  readonly #clock: Clock

  private constructor(root: Root, space: Space, clock: Clock) {
    this.#root = root
    this.#space = space
    this.#clock = clock
  }

  static async open({ path, clock = systemClock, limits, onPressure }: FolderOptions): Promise<FolderArtifacts> {
    return attempting(`opening ${path}`, async () => {
      const root = await Root.open(path)
      const space = new Space({ root: root.path, limits, onPressure })
      const store = new FolderArtifacts(root, space, clock)
      await sweepTemp(root, clock.nowMs() - SWEEP_AFTER_MS)
      await store.#recount()
      return store
    })
  }

  put(key: string, body: Api.ArtifactBody, options: Api.PutOptions = {}): Promise<Api.StoredArtifact> {
    const { contentType = null, contentEncoding = null, ifAbsent = false } = options
    return readingFrom(key, body, options, async (source) => {
      const place = this.#root.place(key)
      await attempting(`storing ${key}`, async () => {
        // Checked before the first byte, so that a caller does not send a large body that is then refused.
        if (ifAbsent && (await this.#root.look(place)) !== null) throw artifactExists(key)
        await this.#space.admit(key, source.bytesKnown ?? 0)
      })
      return write({ root: this.#root, space: this.#space, place, source, contentType, contentEncoding, ifAbsent })
    })
  }

  async get(key: string, options: Api.GetOptions = {}): Promise<Api.ArtifactContent> {
    checkOptionNames('get', options)
    options.signal?.throwIfAborted()
    const opened = await this.#open(key)
    try {
      return contentOf(opened, options)
    } catch (error) {
      await opened.file.close()
      throw error
    }
  }

  async head(key: string, options: Api.SignalOption = {}): Promise<Api.ArtifactHead> {
    checkOptionNames('head', options)
    options.signal?.throwIfAborted()
    const place = this.#root.place(key)
    return attempting(`reading ${key}`, () => headOfArtifact(this.#root, place))
  }

  async verify(key: string, options: Api.SignalOption = {}): Promise<Api.Verification> {
    checkOptionNames('verify', options)
    const { signal } = options
    signal?.throwIfAborted()
    return verifyContent(await this.#open(key), signal)
  }

  async remove(key: string, options: Api.SignalOption = {}): Promise<void> {
    checkOptionNames('remove', options)
    options.signal?.throwIfAborted()
    const place = this.#root.place(key)
    await attempting(`removing ${key}`, async () => {
      const stats = await this.#root.look(place)
      if (stats?.isFile() === true) await this.#unlink(place, versionOf(stats), Number(stats.size))
    })
  }

  async list(options: Api.ListOptions = {}): Promise<Api.ArtifactPage> {
    checkOptionNames('list', options)
    const { found, next } = await this.#page(options)
    return { artifacts: found.map(({ key, bytes, modifiedAtMs }) => ({ key, bytes, modifiedAtMs })), next }
  }

  async removeOlderThan(options: Api.RetentionOptions): Promise<Api.RetentionStep> {
    checkOptionNames('removeOlderThan', options)
    const beforeMs = this.#clock.nowMs() - checkedAge(options.olderThanMs)
    const { found, next } = await this.#page(options)
    let removed = 0
    let bytesRemoved = 0
    for (const { key, bytes, modifiedAtMs, stats } of found) {
      options.signal?.throwIfAborted()
      if (modifiedAtMs >= beforeMs || (await options.keep?.({ key, bytes, modifiedAtMs })) === true) continue
      if (!(await this.#removeVersion(key, versionOf(stats), bytes))) continue
      removed++
      bytesRemoved += bytes
    }
    return { removed, bytesRemoved, next }
  }

  async sweep(options: Api.SweepOptions = {}): Promise<{ removed: number }> {
    checkOptionNames('sweep', options)
    const { olderThanMs = SWEEP_AFTER_MS, signal } = options
    const beforeMs = this.#clock.nowMs() - checkedAge(olderThanMs, Number.NEGATIVE_INFINITY)
    return attempting('sweeping', async () => {
      const removed = (await sweepTemp(this.#root, beforeMs)) + (await sweepSidecars(this.#root, beforeMs, signal))
      await this.#recount()
      return { removed }
    })
  }

  usage(): Promise<Api.Usage> {
    return attempting('asking for free space', () => this.#space.usage())
  }

  pressure(): Promise<Api.Pressure> {
    return attempting('asking for free space', () => this.#space.pressure())
  }

  async close(): Promise<void> {}

  async #open(key: string) {
    const place = this.#root.place(key)
    return attempting(`reading ${key}`, () => openArtifact(this.#root, place))
  }

  async #page(options: Api.ListOptions): Promise<{ found: Walked[]; next: string | null }> {
    const { prefix, after, limit, signal } = pageBounds(options)
    const found: Walked[] = []
    return attempting('listing artifacts', async () => {
      for await (const artifact of walk(this.#root, { prefix, after })) {
        signal?.throwIfAborted()
        if (found.length === limit) return { found, next: found.at(-1)?.key ?? null }
        found.push(artifact)
      }
      return { found, next: null }
    })
  }

  /** Compares the version first: a new artifact may have replaced the listed one. */
  #removeVersion(key: string, version: string, bytes: number): Promise<boolean> {
    const place = this.#root.place(key)
    return attempting(`removing ${key}`, async () => {
      const stats = await this.#root.look(place)
      return stats !== null && versionOf(stats) === version && (await this.#unlink(place, version, bytes))
    })
  }

  async #unlink(place: Place, version: string, bytes: number): Promise<boolean> {
    try {
      await unlink(place.path)
      this.#space.stored(-bytes)
    } catch (error) {
      if (!isMissing(error)) throw error
      return false
    }
    await dropSidecar(place, version)
    await this.#root.pruneFolders(place)
    return true
  }

  async #recount(): Promise<void> {
    if (!this.#space.countsBytes) return
    let bytesStored = 0
    for await (const { bytes } of walk(this.#root, { prefix: '', after: '' })) bytesStored += bytes
    this.#space.recounted(bytesStored)
  }
}

interface WalkOptions {
  prefix: string
  after: string
}

export interface Walked extends ListedArtifact {
  stats: BigIntStats
}

/** Artifacts in the order of their keys, as an object store lists them. Symbolic links and names that are no keys are skipped. */
async function* walk(root: Root, options: WalkOptions): AsyncGenerator<Walked> {
  // Starts in the folder of the prefix: reading all other folders would be slow.
  const folderKey = options.prefix.slice(0, options.prefix.lastIndexOf('/') + 1)
  if (await root.isPlainFolder(folderKey)) yield* walkBelow(root, folderKey, options)
}

async function* walkBelow(root: Root, folderKey: string, options: WalkOptions): AsyncGenerator<Walked> {
  const entries = (await root.entries(join(root.path, folderKey)))
    .filter((entry) => entry.isDirectory() || entry.isFile())
    // With its slash a folder sorts where its keys do: 'a-b' comes before 'a/b', and 'a0' after it.
    .map((entry) => `${folderKey}${entry.name}${entry.isDirectory() ? '/' : ''}`)
    .filter((key) => isKey(key.replace(/\/$/, '')))
    .sort((a, b) => (a < b ? -1 : 1))
  for (const key of entries) {
    if (key.endsWith('/')) {
      if (mayHold(key, options)) yield* walkBelow(root, key, options)
      continue
    }
    if (!key.startsWith(options.prefix) || key <= options.after) continue
    const stats = await statsOf(join(root.path, key))
    if (stats?.isFile() !== true) continue
    yield { key, bytes: Number(stats.size), modifiedAtMs: Number(stats.mtimeMs), stats }
  }
}

function mayHold(folderKey: string, { prefix, after }: WalkOptions): boolean {
  const isWanted = folderKey.startsWith(prefix) || prefix.startsWith(folderKey)
  return isWanted && (after < folderKey || after.startsWith(folderKey))
}

async function statsOf(path: string): Promise<BigIntStats | null> {
  try {
    return await lstat(path, { bigint: true })
  } catch (error) {
    if (isMissing(error)) return null
    throw error
  }
}

/** Removes the temporary files of writers that died. */
async function sweepTemp(root: Root, beforeMs: number): Promise<number> {
  const names = (await root.entries(root.tempFolder)).filter((entry) => entry.isFile()).map((entry) => entry.name)
  return sum(names, (name) => unlinkOlder(join(root.tempFolder, name), beforeMs))
}

async function sweepSidecars(root: Root, beforeMs: number, signal?: AbortSignal, key = ''): Promise<number> {
  signal?.throwIfAborted()
  const folder = join(root.path, key)
  const entries = await root.entries(folder)
  const files = entries.filter((entry) => entry.isFile()).map((entry) => entry.name)
  const orphans = await orphansAmong(folder, files)
  const removed = await sum(orphans, (name) => unlinkOlder(join(folder, name), beforeMs))
  // The sidecar kept this folder from being removed with its artifact.
  if (removed > 0 && key !== '') await rmdir(folder).catch(() => undefined)
  const folders = entries.filter((entry) => entry.isDirectory() && isKey(entry.name))
  return removed + (await sum(folders, ({ name }) => sweepSidecars(root, beforeMs, signal, join(key, name))))
}

/** Sidecars without their artifact. A single sidecar beside an artifact is not checked: nearly all are like that. */
async function orphansAmong(folder: string, files: string[]): Promise<string[]> {
  const sidecars = Map.groupBy(files, (file) => parseSidecarName(file)?.name)
  const orphans: string[] = []
  for (const [name, candidates] of sidecars) {
    if (name === undefined) continue
    if (candidates.length === 1 && files.includes(name)) continue
    const version = await versionAt(join(folder, name))
    orphans.push(...candidates.filter((candidate) => parseSidecarName(candidate)?.version !== version))
  }
  return orphans
}

async function versionAt(path: string): Promise<string | null> {
  try {
    return versionOf(await lstat(path, { bigint: true }))
  } catch (error) {
    if (isMissing(error)) return null
    throw error
  }
}

/** Compares the time of the last change, because a live writer has changed its file recently. */
async function unlinkOlder(path: string, beforeMs: number): Promise<number> {
  try {
    if ((await lstat(path)).mtimeMs >= beforeMs) return 0
    await unlink(path)
    return 1
  } catch (error) {
    if (isMissing(error)) return 0
    throw error
  }
}

async function sum<T>(items: readonly T[], count: (item: T) => Promise<number>): Promise<number> {
  let total = 0
  for (const item of items) total += await count(item)
  return total
}
