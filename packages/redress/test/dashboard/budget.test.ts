import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { build, type Rolldown } from 'vite'
import { expect, test } from 'vitest'

const KB = 1_000
/** What a phone on a bad line has to load before it shows anything, packed. */
const BUDGET = { firstPageScript: 60 * KB, chartsScript: 25 * KB, styles: 12 * KB }

type Chunk = Rolldown.OutputChunk

const packed = (text: string | Uint8Array): number => gzipSync(text).length

test('the first page, the charts and the styles stay within their size budgets', async () => {
  const configFile = join(import.meta.dirname, '../../dashboard/vite.config.ts')
  const built = (await build({ configFile, logLevel: 'silent', build: { write: false } })) as Rolldown.RolldownOutput
  const chunks = built.output.filter((one): one is Chunk => one.type === 'chunk')
  const styles = built.output.filter((one) => one.type === 'asset' && one.fileName.endsWith('.css'))
  const byName = new Map(chunks.map((chunk) => [chunk.fileName, chunk]))

  // The document's own script, and whatever that cannot begin without.
  const first = new Set<string>()
  const need = (name: string): void => {
    if (first.has(name)) return
    first.add(name)
    for (const other of byName.get(name)?.imports ?? []) need(other)
  }
  for (const { isEntry, fileName } of chunks) if (isEntry) need(fileName)
  const firstPageScript = [...first].reduce((sum, name) => sum + packed(byName.get(name)?.code ?? ''), 0)
  const charts = chunks.filter(({ moduleIds }) => moduleIds.some((id) => id.includes('/uplot/')))
  const chartsScript = charts.reduce((sum, { code }) => sum + packed(code), 0)
  const stylesAll = styles.reduce((sum, one) => sum + packed((one as Rolldown.OutputAsset).source), 0)

  expect(
    charts.map(({ fileName }) => first.has(fileName)),
    'charts are loaded only where they are',
  ).toEqual([false])
  expect(firstPageScript).toBeLessThan(BUDGET.firstPageScript)
  expect(chartsScript).toBeLessThan(BUDGET.chartsScript)
  expect(stylesAll).toBeLessThan(BUDGET.styles)
})

test('the dashboard loads nothing from other hosts', () => {
  const document = readFileSync(join(import.meta.dirname, '../../dashboard/index.html'), 'utf8')
  expect(document.match(/(?:src|href)="(?!data:|\/)[^"]*"/g)).toBeNull()
})
