import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { afterAll } from 'vitest'
import { type Answer, environment, ROOT } from './command.ts'

/**
 * One process that does many commands in turn, as the real one does each: what is tried a hundred times need not load
 * its modules a hundred times.
 */
export function manyCommands(): (args: readonly string[]) => Promise<Answer> {
  const child = fork(join(import.meta.dirname, 'many-commands-child.ts'), {
    cwd: ROOT,
    env: environment({}),
    execArgv: ['--conditions=redress-source', '--disable-warning=ExperimentalWarning'],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  afterAll(() => void child.kill())
  return async (args) => {
    child.send(args)
    const [answer] = (await once(child, 'message')) as [Answer]
    return answer
  }
}
