import { readdirSync, readlinkSync } from 'node:fs'

/** Files under the folder that this process has open, with a name or without. */
export function openFiles(folder: string): string[] {
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      const path = readlinkSync(`/proc/self/fd/${fd}`)
      return path.startsWith(folder) ? [path] : []
    } catch {
      // Closed meanwhile.
      return []
    }
  })
}
