import type { AppModule } from 'redress/http'
import { commands } from './cli/commands.ts'

/** Proxies of clips, with a model of failure in which nothing is retried, hidden or half done. Loads the rest when used. */
const proxx: AppModule = {
  name: 'proxx',
  commands,
  install: async (app, installContext) => (await import('./install.ts')).install(app, installContext),
}

export default proxx
