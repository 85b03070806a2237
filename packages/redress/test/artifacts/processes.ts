import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { onTestFinished } from 'vitest'
import type { ArtifactStoreOptions } from '../../src/artifacts/open.ts'

interface Said {
  writing?: boolean
  bytes?: number
  sha256?: string
  peakBytes?: number
}

/** Starts a process that puts an artifact; `next` waits for what it says. */
export function putElsewhere(options: ArtifactStoreOptions, key: string, bytes: number, mode = '') {
  const fixture = join(import.meta.dirname, 'fixtures', 'put.ts')
  const args = ['--conditions=redress-source', fixture, JSON.stringify(options), key, String(bytes), mode]
  const child: ChildProcess = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream })[Symbol.asyncIterator]()
  return {
    async next(): Promise<Said> {
      const { done, value } = await lines.next()
      if (done === true) throw new Error('the process ended without saying more')
      return JSON.parse(value)
    },
    async kill(): Promise<void> {
      child.kill('SIGKILL')
      await once(child, 'exit')
    },
  }
}
