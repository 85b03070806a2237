import { readFileSync } from 'node:fs'

/** From the package itself: src/cli and dist/cli are equally deep in it. */
export function version(): string {
  const manifest = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(manifest) as { version: string }).version
}
