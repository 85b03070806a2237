import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Answer } from './command.ts'
import type { Order } from './warm-command-child.ts'

/**
 * One process that does one command after the other, each as the real one does: with its words, its folder and its
 * environment. What a test file types a hundred times need not load its modules a hundred times.
 */
export class WarmCommand {
  #child: ChildProcess | null = null
  #isBusy = false

  /** Who asks while it works needs a process of their own: two commands at once are two processes. */
  get isBusy(): boolean {
    return this.#isBusy
  }

  async do(order: Order): Promise<Answer> {
    this.#isBusy = true
    const over = new AbortController()
    try {
      this.#child ??= this.#start(order)
      const ended = once(this.#child, 'exit', over).then(([code]) => {
        throw new Error(`the process ended with ${code} in the middle of redress ${order.args.join(' ')}`)
      })
      this.#child.send(order)
      const [answer] = (await Promise.race([once(this.#child, 'message', over), ended])) as [Answer]
      return answer
    } finally {
      over.abort()
      this.#isBusy = false
    }
  }

  stop(): void {
    this.#child?.kill()
  }

  #start({ cwd, env }: Order): ChildProcess {
    const child = fork(join(import.meta.dirname, 'warm-command-child.ts'), {
      cwd,
      env,
      execArgv: ['--conditions=redress-source', '--disable-warning=ExperimentalWarning'],
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    })
    // It ends when this process does, and does not keep it from ending.
    child.unref()
    child.channel?.unref()
    return child
  }
}
