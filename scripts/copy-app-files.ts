/** What an app needs beside its code: pages, schemas, mappings. Goes where the built code looks for it. */
import { cpSync, statSync } from 'node:fs'
import { join } from 'node:path'

const app = process.argv[2] ?? '.'

cpSync(join(app, 'src'), join(app, 'dist'), {
  recursive: true,
  filter: (source) => statSync(source).isDirectory() || !source.endsWith('.ts'),
})
