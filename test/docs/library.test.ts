import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { CHECKOUT, environment, tarballOf } from '../support/run/packing.ts'
import { PACKING_MS_MAX, packedPackages } from '../support/run/shared-servers.ts'
import { startPostgres } from '../support/stores/postgres.ts'

/** The newest Node that the package is tested with, beside the one that runs the tests. */
const NEWEST_NODE = '26.10.0'
const GUIDE_MS_MAX = 180_000

interface Block {
  language: string
  text: string
  /** The file that the reader saves it as. */
  file: string | null
}

const BLOCK = /^```(\w*)\n(.*?)^```/gms

function blocksOf(page: string): Block[] {
  const text = readFileSync(join(CHECKOUT, page), 'utf8')
  return [...text.matchAll(BLOCK)].map(({ index, 1: language = '', 2: block = '' }) => {
    const before = text.slice(0, index).split('```').at(-1) ?? ''
    const file = /save\s+this\s+as `([^`]+)`:\s*$/i.exec(before)?.[1] ?? null
    return { language, text: block, file }
  })
}

const MARK = '##### block'

/**
 * One shell for all blocks, as the reader has one: jobs in the background and variables last. A file appears where the
 * reader saves it.
 */
function scriptOf(blocks: readonly Block[], files: string, databaseUrl: string): string {
  const steps = blocks.flatMap(({ language, text, file }, index) => {
    if (file !== null) return [`cp '${join(files, file)}' .`]
    if (language !== 'sh') return []
    const lines = text.replaceAll(/^(node .*) &$/gm, '$1 > background.log 2>&1 &')
    const database = lines.includes('$DATABASE_URL') ? [`export DATABASE_URL='${databaseUrl}'`] : []
    return [`echo '${MARK} ${index}'`, ...database, lines]
  })
  // The reader sees both streams in one terminal.
  return ['set -em', 'exec 2>&1', ...steps, `echo '${MARK} end'`].join('\n')
}

/** What each block printed, by its number. */
function printedBy(stdout: string): Map<number, string> {
  const parts = stdout.split(`${MARK} `).slice(1)
  return new Map(parts.map((part) => [Number.parseInt(part, 10), part.slice(part.indexOf('\n') + 1)]))
}

interface Followed {
  code: number
  stdout: string
  stderr: string
}

async function follow(blocks: readonly Block[], node: string): Promise<Followed> {
  const project = await mkdtemp(join(tmpdir(), 'redress-guide-'))
  const files = await mkdtemp(join(tmpdir(), 'redress-guide-files-'))
  for (const { file, text } of blocks) if (file !== null) await writeFile(join(files, file), text)
  const { url } = await startPostgres()
  const tarball = tarballOf(await packedPackages(), 'redress')
  const script = scriptOf(blocks, files, url).replace('npm install redress ', `npm install ${tarball} `)
  const env = { ...environment(dirname(node)), npm_config_prefer_offline: 'true', npm_config_update_notifier: 'false' }
  return new Promise((resolve) => {
    execFile('bash', ['-c', script], { cwd: project, env, timeout: GUIDE_MS_MAX }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr })
    })
  })
}

/** Installs it once for this checkout: it is not a dependency, because its command would replace the Node that runs the tests. */
async function newestNode(): Promise<string> {
  const folder = join(CHECKOUT, 'node_modules/.cache', `node-${NEWEST_NODE}`)
  const name = `node-${process.platform}-${process.arch}`
  const binary = join(folder, 'node_modules', name, 'bin/node')
  if (existsSync(binary)) return binary
  await mkdir(folder, { recursive: true })
  await new Promise<void>((resolve, reject) => {
    const args = ['install', '--prefix', folder, '--no-save', '--no-audit', '--no-fund', `${name}@${NEWEST_NODE}`]
    execFile('npm', args, { env: environment('') }, (error) => (error === null ? resolve() : reject(error)))
  })
  return binary
}

const NODES: readonly [string, () => string | Promise<string>][] = [
  ['the Node of this checkout', () => process.execPath],
  [`Node ${NEWEST_NODE}`, newestNode],
]

test.each(NODES)(
  'the library guide works word by word with the published package, on %s',
  async (_, findNode) => {
    const blocks = blocksOf('docs/guides/library.md')
    const { code, stdout, stderr } = await follow(blocks, await findNode())
    const printed = printedBy(stdout)
    expect(printed.has(Number.NaN), `it stopped early:\n${stdout}\n${stderr}`).toBe(true)
    expect(code).toBe(0)
    let shownBlocks = 0
    for (const [index, { language, text }] of blocks.entries()) {
      if (language !== '') continue
      shownBlocks++
      for (const line of text.trim().split('\n')) expect(printed.get(index - 1)).toContain(line)
    }
    expect(shownBlocks).toBeGreaterThan(3)
  },
  PACKING_MS_MAX + GUIDE_MS_MAX,
)
