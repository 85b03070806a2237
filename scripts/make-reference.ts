import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { PAGES } from './reference.ts'

const ROOT = join(import.meta.dirname, '..')

for (const [path, make] of Object.entries(PAGES)) {
  mkdirSync(dirname(join(ROOT, path)), { recursive: true })
  writeFileSync(join(ROOT, path), make())
}
