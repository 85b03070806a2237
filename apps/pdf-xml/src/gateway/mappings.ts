import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type * as z from 'zod'
import { mappingSchema } from './mapping-schema.ts'
import type { MappingOrder } from './messages.ts'
import { Refusal } from './refusals.ts'

interface MappingEntry {
  name: string
  version: number
  title: string
  description: string
}

/** A file that is not a valid mapping. The other mappings still work. */
interface BrokenMapping {
  file: string
  /** The name as far as it can be read: a request for it is answered with the problem. */
  name: string
  problems: readonly MappingProblem[]
}

interface MappingProblem {
  file: string
  line: number
  message: string
}

const SHIPPED = fileURLToPath(new URL('./mappings/', import.meta.url))
const FILE_BYTES_MAX = 256 * 1024

const BUILT_IN: readonly Mapping[] = [
  {
    entry: { name: 'text', version: 1, title: 'Text', description: 'Pages and paragraphs in reading order.' },
    order: { kind: 'text', name: 'text', version: 1 },
  },
  {
    entry: {
      name: 'layout',
      version: 1,
      title: 'Layout',
      description: 'Pages, blocks, lines and words with their places and fonts.',
    },
    order: { kind: 'layout', name: 'layout', version: 1 },
  },
]

interface Mapping {
  entry: MappingEntry
  order: MappingOrder
}

export class Mappings {
  readonly #mappings: readonly Mapping[]
  readonly broken: readonly BrokenMapping[]

  static load(extraFolder: string | undefined): Mappings {
    const mappings = [...BUILT_IN]
    const broken: BrokenMapping[] = []
    for (const folder of extraFolder === undefined ? [SHIPPED] : [SHIPPED, extraFolder]) {
      const files = readdirSync(folder)
        .filter((name) => name.endsWith('.json'))
        .sort()
      for (const file of files) {
        const read = readMapping(file, readFileSync(join(folder, file), 'utf8'))
        if ('problems' in read) broken.push(read)
        else if (mappings.some(({ entry }) => idOf(entry) === idOf(read.entry))) {
          const message = `There is a mapping ${idOf(read.entry)} already: count its version up.`
          broken.push({ file, name: read.entry.name, problems: [{ file, line: 1, message }] })
        } else mappings.push(read)
      }
    }
    return new Mappings(mappings, broken)
  }

  private constructor(mappings: readonly Mapping[], broken: readonly BrokenMapping[]) {
    this.#mappings = mappings
    this.broken = broken
  }

  get entries(): MappingEntry[] {
    return this.#mappings.map(({ entry }) => entry)
  }

  /** 'invoice' is the newest version of it, 'invoice@1' that one. */
  find(asked: string | undefined): MappingOrder {
    if (asked === undefined || asked === '') throw new Refusal('INVALID_MAPPING', 'Name a mapping: ?mapping=text.')
    const [name, version] = asked.split('@', 2)
    const found = this.#mappings
      .filter(({ entry }) => entry.name === name && (version === undefined || String(entry.version) === version))
      .sort((a, b) => b.entry.version - a.entry.version)[0]
    if (found !== undefined) return found.order
    const problem = this.broken.find((broken) => broken.name === name)?.problems[0]
    if (problem !== undefined) {
      throw new Refusal('INVALID_MAPPING', `The mapping ${name} is broken: ${problemText(problem)}`)
    }
    throw new Refusal('INVALID_MAPPING', `There is no mapping ${JSON.stringify(asked.slice(0, 80))}.`)
  }
}

export const idOf = ({ name, version }: { name: string; version: number }): string => `${name}@${version}`
export const problemText = ({ file, line, message }: MappingProblem): string => `${file}:${line}: ${message}`

export function readMapping(file: string, text: string): Mapping | BrokenMapping {
  const name = file.replace(/\.json$/, '')
  if (text.length > FILE_BYTES_MAX) {
    return { file, name, problems: [{ file, line: 1, message: `It is larger than ${FILE_BYTES_MAX} bytes.` }] }
  }
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch (error) {
    return { file, name, problems: [syntaxProblem(file, text, error as Error)] }
  }
  const checked = mappingSchema.safeParse(json)
  if (!checked.success) {
    const lineOf = linesOfJson(text)
    const problems = checked.error.issues.map((issue) => ({ file, line: lineOf(issue.path), message: hint(issue) }))
    const own = (json as { name?: unknown } | null)?.name
    return { file, name: typeof own === 'string' ? own : name, problems }
  }
  const { $schema: _, name: own, version, title, description, ...definition } = checked.data
  return {
    entry: { name: own, version, title, description },
    order: { kind: 'record', name: own, version, definition },
  }
}

function syntaxProblem(file: string, text: string, error: Error): MappingProblem {
  const at = Number(/position (\d+)/.exec(error.message)?.[1] ?? text.length)
  const message = error.message.replace(/ in JSON at position.*| \(line.*/, '')
  return { file, line: text.slice(0, at).split('\n').length, message: `This is not JSON: ${message}.` }
}

function hint(issue: z.core.$ZodIssue): string {
  const where = issue.path.join('.')
  if (issue.code === 'unrecognized_keys') {
    return `${where === '' ? 'A mapping' : where} has no ${issue.keys.join(', ')}: is it misspelt?`
  }
  return where === '' ? issue.message : `${where}: ${issue.message}`
}

/**
 * Returns a function that finds the line of a value in a JSON text: `lineOf(['fields', 2, 'type'])`. For a missing
 * value it returns the line of its parent. The text must be valid JSON.
 */
export function linesOfJson(text: string): (path: readonly PropertyKey[]) => number {
  const lines = new Map<string, number>()
  const tokens = text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}:,]|[^\s[\]{}:,"]+/g)
  let line = 1
  let counted = 0
  const next = (): string => {
    const token = tokens.next().value
    if (token === undefined) return ''
    line += text.slice(counted, token.index).split('\n').length - 1
    counted = token.index
    return token[0]
  }
  const note = (path: readonly PropertyKey[]) => lines.set(keyOf(path), line)
  const value = (token: string, path: readonly PropertyKey[]): void => {
    note(path)
    if (token === '[') {
      for (let i = 0, inner = next(); inner !== ']' && inner !== ''; i++) {
        value(inner, [...path, i])
        inner = next()
        if (inner === ',') inner = next()
      }
    } else if (token === '{') {
      for (let name = next(); name !== '}' && name !== ''; ) {
        const inner = [...path, JSON.parse(name) as string]
        next()
        value(next(), inner)
        name = next()
        if (name === ',') name = next()
      }
    }
  }
  value(next(), [])
  return (path) => {
    for (let length = path.length; length > 0; length--) {
      const found = lines.get(keyOf(path.slice(0, length)))
      if (found !== undefined) return found
    }
    return 1
  }
}

const keyOf = (path: readonly PropertyKey[]): string => JSON.stringify(path)
