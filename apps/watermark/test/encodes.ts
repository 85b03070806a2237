import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { sep } from 'node:path'

/** A real ffmpeg that is writing a copy at this moment. */
export interface Encode {
  pid: number
  tokenId: string
  attempt: number
}

/** The encodes that run in this work folder, whoever started them. Read from the processes themselves: nobody tells us. */
export function encodesIn(work: string): Encode[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      const encode = encodeOf(Number(name), work)
      return encode === null ? [] : [encode]
    })
}

function encodeOf(pid: number, work: string): Encode | null {
  try {
    const cwd = readlinkSync(`/proc/${pid}/cwd`)
    if (!cwd.startsWith(work + sep)) return null
    const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
    // Behind a program that sets its limits it is not itself yet; and a decoder that verifies has no encoder's name.
    if (!words[0]?.endsWith('/ffmpeg') || !words.includes('libx264')) return null
    const [, tokenId = '', attempt = ''] = /^([^.]+)\.(\d+)/.exec(cwd.slice(work.length + 1)) ?? []
    return { pid, tokenId, attempt: Number(attempt) }
  } catch {
    // It ended while we looked.
    return null
  }
}

/**
 * Kills an encode, for certain in the middle of it: it is made to stand still first, and looked at again. False when it
 * was over before.
 */
export function killEncode({ pid, tokenId, attempt }: Encode, work: string): boolean {
  if (!sent(pid, 'SIGSTOP')) return false
  const still = encodeOf(pid, work)
  if (still?.tokenId !== tokenId || still.attempt !== attempt) {
    sent(pid, 'SIGCONT')
    return false
  }
  return sent(pid, 'SIGKILL')
}

function sent(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false
    throw error
  }
}
