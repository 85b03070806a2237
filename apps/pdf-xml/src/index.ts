import type { AppModule } from 'redress/http'
import { gateway } from './gateway/command.ts'

/** The AppModule. `install.ts` is loaded only when the app starts, so that help stays quick. */
const pdfXml: AppModule = {
  name: 'pdf-xml',
  commands: [gateway],
  install: async (app, installContext) => (await import('./install.ts')).install(app, installContext),
}

export default pdfXml
