import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'

const ROUNDS_MAX = 200
const ROUND_MS = 10

const running = new Set<ProcessGroup>()
let isExitWatched = false

/** The process ids of this machine, or null where there is no /proc to read them from. */
export async function processIds(): Promise<ReadonlySet<string> | null> {
  try {
    return new Set((await readdir('/proc')).filter((name) => /^\d+$/.test(name)))
  } catch {
    return null
  }
}

interface Member {
  id: number
  inGroup: boolean
}

/** A program and everything it starts: its process group, and those that left it but carry the run's mark. */
export class ProcessGroup {
  readonly #id: number
  readonly #mark: string
  /** Who was there before: looking only at those who came since keeps the cost small on a busy machine. */
  readonly #before: ReadonlySet<string> | null

  constructor(id: number, mark: string, before: ReadonlySet<string> | null) {
    this.#id = id
    this.#mark = mark
    this.#before = before
    running.add(this)
    if (isExitWatched) return
    isExitWatched = true
    // A process that exits on its own takes its programs with it; one that is killed cannot, see launch.ts.
    process.on('exit', () => {
      for (const group of running) group.signal('SIGKILL')
    })
  }

  signal(name: NodeJS.Signals): void {
    send(-this.#id, name)
  }

  /** Kills what is left of the run, and answers with those that would not die. */
  async end(): Promise<number[]> {
    let left = await this.#alive()
    // Real time, and a bound: a process that hangs in the kernel dies when it pleases.
    for (let round = 0; left.length > 0 && round < ROUNDS_MAX; round++) {
      // The group at once, so that none can fork and get away; but not a group that is gone, whose number may be reused.
      if (left.some(({ inGroup }) => inGroup)) this.signal('SIGKILL')
      for (const { id } of left) send(id, 'SIGKILL')
      await delay(ROUND_MS)
      left = await this.#alive()
    }
    running.delete(this)
    return left.map(({ id }) => id)
  }

  async #alive(): Promise<Member[]> {
    const now = this.#before === null ? null : await processIds()
    if (now === null) return send(-this.#id, 0) ? [{ id: this.#id, inGroup: true }] : []
    const recent = [...now].filter((id) => !this.#before?.has(id))
    return (await Promise.all(recent.map((id) => this.#member(id)))).filter((member) => member !== null)
  }

  async #member(id: string): Promise<Member | null> {
    try {
      const stat = await readFile(`/proc/${id}/stat`, 'latin1')
      // The name stands in parentheses and may hold any character; state, parent and group follow it.
      const [state = '', , group] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      if (state === 'Z' || state === 'X') return null
      const inGroup = Number(group) === this.#id
      const isOurs = inGroup || (await readFile(`/proc/${id}/environ`, 'latin1')).includes(this.#mark)
      return isOurs ? { id: Number(id), inGroup } : null
    } catch {
      // Gone since, or somebody else's.
      return null
    }
  }
}

/** Says whether there was somebody to receive it. */
function send(id: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(id, signal)
  } catch {
    return false
  }
}
