import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type ArtifactStore, artifactStore } from 'redress/artifacts'
import { S3Server } from '../../test/support/s3/server.ts'

/** Where a storm stores, and what goes wrong there. */
export interface Storage {
  readonly env: Readonly<Record<string, string>>
  readonly store: ArtifactStore
  /** Nothing can be stored below this prefix until it is healed. */
  block(prefix: string, keys: readonly string[]): void
  /** For a moment nothing can be stored at all, or every answer is a bad one. */
  stumble(): void
  heal(): void
  stop(): Promise<void>
}

const STUMBLE_MS = 300
const STUMBLE_REQUESTS = 40

export async function openStorage(kind: 'folder' | 's3', folder: string): Promise<Storage> {
  return kind === 'folder' ? inFolder(join(folder, 'storage')) : inBucket()
}

/** The root may write anywhere, so rights are no obstacle: what a write needs is taken away instead. */
async function inFolder(root: string): Promise<Storage> {
  const store = await artifactStore({ url: `file:${root}`, limits: {} })
  const blocked: string[] = []
  const temp = join(root, '.tmp')
  let comesBack: NodeJS.Timeout | null = null
  const giveBack = () => {
    if (comesBack === null) return
    clearTimeout(comesBack)
    comesBack = null
    // A worker that was started meanwhile has made another one.
    if (existsSync(temp)) rmSync(`${temp}-away`, { recursive: true })
    else renameSync(`${temp}-away`, temp)
  }
  return {
    env: { FETCHBOX_STORAGE: root },
    store,
    block(prefix) {
      const path = join(root, prefix.replace(/\/$/, ''))
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
      writeFileSync(path, 'in the way')
      blocked.push(path)
    },
    stumble() {
      if (comesBack !== null) return
      renameSync(temp, `${temp}-away`)
      comesBack = setTimeout(giveBack, STUMBLE_MS)
    },
    heal() {
      giveBack()
      for (const path of blocked.splice(0)) rmSync(path)
    },
    stop: () => store.close(),
  }
}

async function inBucket(): Promise<Storage> {
  const server = await S3Server.start()
  const { credentials } = server
  const store = await artifactStore({ url: server.storeUrl(), credentials })
  let isHealed = false
  return {
    env: {
      FETCHBOX_STORAGE: server.storeUrl(),
      AWS_ACCESS_KEY_ID: credentials.accessKeyId,
      AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
    },
    store,
    block(_prefix, keys) {
      const denied = { kind: 'answer', code: 'AccessDenied', status: 403 } as const
      for (const key of keys) server.plan(denied, { operation: 'PutObject', key, times: 1 })
    },
    stumble() {
      if (isHealed) return
      server.plan(
        { kind: 'answer', code: 'SlowDown', status: 503 },
        { operation: 'PutObject', times: STUMBLE_REQUESTS },
      )
      server.plan({ kind: 'lose-answer' }, { operation: 'PutObject', times: STUMBLE_REQUESTS })
    },
    heal() {
      isHealed = true
    },
    async stop() {
      await store.close()
      await server.stop()
    },
  }
}
