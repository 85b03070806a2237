/**
 * A thread beside a handler in a process of its own. It ends the process when the worker is gone or the memory limit is
 * reached, also while the handler blocks its own thread.
 */
import { writeSync } from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'
import type { ChildSetup } from './child.ts'

const PARENT_MS = 500
/** A tight loop fills about a gigabyte per second. */
const MEMORY_MS = 25
/** The pipe on which the worker learns why the process was killed. */
export const REASON_FD = 4

const { parentPid, memoryMb } = workerData as ChildSetup
const ownBytes = process.memoryUsage.rss()
const bytesMax = memoryMb === null ? Number.POSITIVE_INFINITY : ownBytes + memoryMb * 2 ** 20

function look(): void {
  const bytes = memoryMb === null ? 0 : process.memoryUsage.rss()
  if (bytes > bytesMax) {
    try {
      writeSync(REASON_FD, `${Math.round((bytes - ownBytes) / 2 ** 20)} MB`)
    } catch {
      // The worker is gone, too, so no reader needs the reason.
    }
  } else if (process.ppid === parentPid) return
  process.kill(-process.pid, 'SIGKILL')
}

setInterval(look, memoryMb === null ? PARENT_MS : MEMORY_MS)
parentPort?.postMessage('ready')
