import type { AppModule } from 'redress/http'
import { commands } from './cli/commands.ts'

/** The AppModule. `install.ts` is loaded only when the app starts, so that help stays quick. */
const proxx: AppModule = {
  name: 'proxx',
  commands,
  install: async (app, installContext) => (await import('./install.ts')).install(app, installContext),
}

export default proxx
