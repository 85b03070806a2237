import { appendFile, mkdir } from 'node:fs/promises'
import { join } from 'node:path'

/** The folder of one job: nothing in it is ever removed or changed afterwards, only added to. */
export const folderOf = (jobs: string, id: string): string => join(jobs, id)
export const stderrLogOf = (jobs: string, id: string): string => join(folderOf(jobs, id), 'stderr.log')

/** P24, P27: what was run and what it said, in order, up to the failure. Programs add to the same file. */
export class Trace {
  readonly path: string
  readonly #folder: string

  constructor(jobs: string, id: string) {
    this.#folder = folderOf(jobs, id)
    this.path = stderrLogOf(jobs, id)
  }

  async say(nowMs: number, text: string): Promise<void> {
    await mkdir(this.#folder, { recursive: true })
    await appendFile(this.path, `# ${new Date(nowMs).toISOString()} ${text.replace(/\p{Cc}+/gu, ' ')}\n`, {
      mode: 0o600,
    })
  }
}
