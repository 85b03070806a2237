import { type App, redress } from '../../app/app.ts'
import { failureLogOf } from '../apps/apps.ts'
import type { Parsed } from '../language/parse.ts'
import { chooseStore, refuseMissingStore } from './store-option.ts'
import type { FollowOptions, LiveEvent, Target } from './target.ts'

/** Acts on the store itself, without authentication: anyone who can open the store has full control of it. */
export async function openLocal(
  values: Parsed['values'],
  appFile: string | undefined,
  server: string,
  { mayBeMissing = false }: { mayBeMissing?: boolean } = {},
): Promise<Target & { app: App }> {
  const choice = chooseStore(values)
  if (!mayBeMissing) refuseMissingStore(choice.location)
  const app =
    appFile === undefined
      ? redress({ store: choice.location, failureLog: failureLogOf(choice.location) })
      : await (await import('../apps/load.ts')).loadApp(appFile, choice)

  async function* follow({ topics, after, signal, onReady }: FollowOptions): AsyncGenerator<LiveEvent> {
    let lastId = after
    // Opened first, so that a problem of the store is reported at once and not retried.
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
    app,
    perform: (name, input) => app.perform(name, input as never),
    follow,
    flags: choice.flags,
    server,
    stop: () => app.stop(),
  }
}
