import { copyFileSync, globSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, sep } from 'node:path'

/** A step of the build, after `tsc`: the declarations name the types of `zod-types.d.ts` instead of those of zod. */
const DIST = join(import.meta.dirname, 'dist')
const TYPES = 'zod-types'

copyFileSync(join(import.meta.dirname, `${TYPES}.d.ts`), join(DIST, `${TYPES}.d.ts`))
for (const name of globSync('**/*.d.ts', { cwd: DIST })) {
  const file = join(DIST, name)
  const text = readFileSync(file, 'utf8')
  const path = relative(dirname(name), `${TYPES}.ts`).split(sep).join('/')
  const light = text.replaceAll(/ from 'zod'/g, ` from '${path.startsWith('.') ? path : `./${path}`}'`)
  if (light !== text) writeFileSync(file, light)
}
