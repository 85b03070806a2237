/** What the apps need beside their code: pages, schemas, mappings. Goes where the built code looks for it. */
import { cpSync, statSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '..')

cpSync(join(ROOT, 'apps'), join(ROOT, 'dist/apps'), {
  recursive: true,
  filter: (source) => statSync(source).isDirectory() || !source.endsWith('.ts'),
})
