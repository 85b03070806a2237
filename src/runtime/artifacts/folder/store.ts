import { unlink } from 'node:fs/promises'
import type { Clock } from '../../clock.ts'
import { systemClock } from '../../clock.ts'
import type * as Api from '../artifact-store.ts'
import { readingFrom } from '../body.ts'
import { checkedAge, pageBounds } from '../page.ts'
import { artifactExists } from '../refusals.ts'
import { attempting, isMissing } from './errors.ts'
import { type Place, Root } from './place.ts'
import { contentOf, headOfArtifact, openArtifact, verifyContent } from './reading.ts'
import { dropSidecar, versionOf } from './sidecar.ts'
import { Space, type SpaceLimits } from './space.ts'
import { sweepSidecars, sweepTemp } from './sweeping.ts'
import { type Walked, walk } from './walk.ts'
import { write } from './writing.ts'

const SWEEP_AFTER_MS = 3_600_000

export interface FolderOptions {
  path: string
  clock?: Clock | undefined
  /** Replaces the default limits: 512 MiB free (soft) and 64 MiB free (hard). */
  limits?: SpaceLimits | undefined
  /** Told when the pressure changes, as seen by a put or by asking. */
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
        // Before the first byte: nobody should send a gigabyte to learn that it was not wanted.
        if (ifAbsent && (await this.#root.look(place)) !== null) throw artifactExists(key)
        await this.#space.admit(key, source.bytesKnown ?? 0)
      })
      return write({ root: this.#root, space: this.#space, place, source, contentType, contentEncoding, ifAbsent })
    })
  }

  async get(key: string, options: Api.GetOptions = {}): Promise<Api.ArtifactContent> {
    options.signal?.throwIfAborted()
    const opened = await this.#open(key)
    try {
      return contentOf(opened, options)
    } catch (error) {
      await opened.file.close()
      throw error
    }
  }

  async head(key: string, { signal }: Api.SignalOption = {}): Promise<Api.ArtifactHead> {
    signal?.throwIfAborted()
    const place = this.#root.place(key)
    return attempting(`reading ${key}`, () => headOfArtifact(this.#root, place))
  }

  async verify(key: string, { signal }: Api.SignalOption = {}): Promise<Api.Verification> {
    signal?.throwIfAborted()
    return verifyContent(await this.#open(key), signal)
  }

  async remove(key: string, { signal }: Api.SignalOption = {}): Promise<void> {
    signal?.throwIfAborted()
    const place = this.#root.place(key)
    await attempting(`removing ${key}`, async () => {
      const stats = await this.#root.look(place)
      if (stats?.isFile() === true) await this.#unlink(place, versionOf(stats), Number(stats.size))
    })
  }

  async list(options: Api.ListOptions = {}): Promise<Api.ArtifactPage> {
    const { found, next } = await this.#page(options)
    return { artifacts: found.map(({ key, bytes, modifiedAtMs }) => ({ key, bytes, modifiedAtMs })), next }
  }

  async removeOlderThan(options: Api.RetentionOptions): Promise<Api.RetentionStep> {
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

  async sweep({ olderThanMs = SWEEP_AFTER_MS, signal }: Api.SweepOptions = {}): Promise<{ removed: number }> {
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

  /** Looked at once more: a fresh artifact may have taken the old one's place since it was listed. */
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
