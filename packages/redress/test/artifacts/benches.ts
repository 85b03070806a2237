import { mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { S3Server } from '../../../../test/support/s3/server.ts'
import type { ArtifactStore } from '../../src/artifacts/artifact-store.ts'
import { type ArtifactStoreOptions, artifactStore } from '../../src/artifacts/open.ts'

/** One place to keep artifacts, seen from outside: what is really there, whatever the store says. */
export interface Bench {
  readonly name: string
  /** Each call is another handle on the same place, as another process would have. */
  open(options?: Partial<ArtifactStoreOptions>): Promise<ArtifactStore>
  /** What is there and is not a visible artifact: temporary files, parts, folders without content. */
  leftovers(): string[]
  /** Changes one byte of what is stored, as a bad disk does. */
  corrupt(key: string): void
  /** Puts something there without the store's knowledge. */
  plant(key: string, content: string): void
  stop(): Promise<void>
}

/** Small parts, so that a test of parts needs few bytes. */
export const PART_BYTES = 5 * 2 ** 20

export function folderBench(): Bench & { root: string } {
  const root = mkdtempSync(join(tmpdir(), 'redress-artifacts-'))
  return {
    name: 'folder',
    root,
    open: (options = {}) => artifactStore({ url: `file:${root}`, limits: {}, ...options }),
    leftovers: () => leftoversOf(root),
    corrupt: (key) => flipByte(root, key),
    plant: (key, content) => writeFileSync(join(root, key), content),
    stop: async () => rmSync(root, { recursive: true, force: true }),
  }
}

function leftoversOf(root: string): string[] {
  const entries = readdirSync(root, { recursive: true, withFileTypes: true })
  const paths = entries.map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1))
  return entries.flatMap((entry, i) => {
    const path = paths[i] as string
    if (path === '.tmp') return []
    if (entry.isDirectory()) return readdirSync(join(root, path)).length === 0 ? [path] : []
    const [, artifact, version] = /^\.(.+)\.(\d+-\d+)\.json$/.exec(entry.name) ?? []
    const isSidecar = artifact !== undefined && version === versionAt(join(entry.parentPath, artifact))
    return isSidecar || !/(^|\/)\./.test(path) ? [] : [path]
  })
}

function versionAt(path: string): string {
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false })
  return `${stats?.ino}-${stats?.mtimeNs}`
}

/** A bad disk does not change a file's time, but writing does: the sidecar is made to fit again. */
function flipByte(folder: string, name: string): void {
  const path = join(folder, name)
  const before = versionAt(path)
  const bytes = readFileSync(path)
  bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1
  writeFileSync(path, bytes)
  renameSync(join(folder, `.${name}.${before}.json`), join(folder, `.${name}.${versionAt(path)}.json`))
}

export async function s3Bench(): Promise<Bench & { server: S3Server }> {
  const server = await S3Server.start()
  return {
    name: 's3',
    server,
    open: ({ s3, ...options } = {}) =>
      artifactStore({
        url: server.storeUrl('artifacts', 'some/prefix'),
        credentials: server.credentials,
        s3: { partBytes: PART_BYTES, ...s3 },
        ...options,
      }),
    leftovers: () => [...server.bucket().uploads.values()].map(({ key, parts }) => `${key}: ${parts.size} parts`),
    corrupt(key) {
      const data = server.bucket().objects.get(`some/prefix/${key}`)?.data
      if (data === undefined) throw new Error(`nothing is stored at ${key}`)
      data[data.length - 1] = (data.at(-1) ?? 0) ^ 1
    },
    plant(key, content) {
      const data = Buffer.from(content)
      const etag = `"${content.length}"`
      const described = { contentType: 'text/plain', contentEncoding: null, metadata: {} }
      const object = { data, etag, sha256: null, ...described, modified: new Date() }
      server.bucket().objects.set(`some/prefix/${key}`, object)
    },
    stop: () => server.stop(),
  }
}
