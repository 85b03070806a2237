/** Says which programs this process finds, for tests that run it as another user: `node find-programs.ts [PACKAGES_FROM]`. */
import { MediaError } from '../src/media/errors.ts'
import { findPrograms } from '../src/media/programs.ts'

const [, , packagesFrom = ''] = process.argv
try {
  // Only what comes with the package: the machine may have programs of its own.
  const settings = { searchPath: '', ...(packagesFrom !== '' && { packagesFrom }) }
  process.stdout.write(JSON.stringify(await findPrograms(settings)))
} catch (error) {
  if (!(error instanceof MediaError)) throw error
  const { code, message, detail } = error
  process.stdout.write(JSON.stringify({ code, message, detail }))
}
