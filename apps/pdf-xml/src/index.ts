import type { AppModule } from 'redress/http'
import { gateway } from './gateway/command.ts'

/** Upload a PDF, have it converted behind a breaker, download XML. Loads the rest when used. */
const pdfXml: AppModule = {
  name: 'pdf-xml',
  commands: [gateway],
  install: async (app, installContext) => (await import('./install.ts')).install(app, installContext),
}

export default pdfXml
