import { redress } from '../app/app.ts'
import type { OperationName } from '../operations/catalog.ts'
import type { InputOf } from '../operations/table.ts'
import { failureLogOf } from './apps.ts'
import type { Parsed } from './parse.ts'
import { chooseStore, refuseMissingStore } from './store-option.ts'
import type { FollowOptions, LiveEvent, Target } from './target.ts'

/** On the store itself: whoever can reach it needs no leave. */
export async function openLocal(
  values: Parsed['values'],
  appFile: string | undefined,
  server: string,
): Promise<Target> {
  const choice = chooseStore(values)
  refuseMissingStore(choice.location)
  const app =
    appFile === undefined
      ? redress({ store: choice.location, failureLog: failureLogOf(choice.location) })
      : await (await import('./load-app.ts')).loadApp(appFile, choice)

  async function* follow({ topics, after, signal, onReady }: FollowOptions): AsyncGenerator<LiveEvent> {
    let lastId = after
    // Opened before: what is wrong with the store is an error now, and not something that passes.
    await app.store()
    for (let isAgain = false; !signal.aborted; isAgain = true) {
      const subscription = app.hub.subscribe({ topics: topics.length > 0 ? topics : ['*'], after: lastId, signal })
      await subscription.ready
      if (!isAgain) onReady?.()
      for await (const { id, event, data } of subscription) {
        lastId = id ?? lastId
        // Let go because this side was slow: it goes on from where it was.
        if (event === 'end') break
        yield { id, event, data }
      }
    }
  }

  return {
    perform: (name, input) => app.perform(name, input as InputOf<OperationName>) as never,
    follow,
    flags: choice.flags,
    server,
    stop: () => app.stop(),
  }
}
