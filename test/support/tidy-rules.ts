/**
 * The rules that keep the repository in shape, as functions over a path and its text, so that each can be tried on a
 * bad example. Every one answers with sentences: where, what, and why it matters. `tidy.test.ts` applies them.
 */
import { posix } from 'node:path'
import { parseSync } from 'vite'

interface Layer {
  folder: string
  /** Beside its own folder. 'a/' is a folder, 'a/*.ts' the files directly in it, 'node:*' Node itself, '*' any package. */
  mayImport: readonly string[]
  /** Erased when the code runs, so allowed where a running import is not. */
  mayImportTypes?: readonly string[]
  reason: string
}

/** Stands for a name that only the running program knows. */
const COMPUTED = '(computed)'
const PUBLIC_API = ['redress', 'redress/*', 'node:*', '*']

/** The most precise folder wins: a file of src/store/sqlite/ is judged by that line, not by the one of src/store/. */
export const LAYERS: readonly Layer[] = [
  {
    folder: 'src/core/',
    mayImport: ['zod'],
    reason: 'core decides from its arguments alone, so that a decision can be repeated, simulated and explained',
  },
  {
    folder: 'src/runtime/',
    // Redaction is in core, and what a program said must be redacted before it leaves the folder that ran it.
    mayImport: [
      'src/core/errors.ts',
      'src/core/redact.ts',
      'node:*',
      'pino',
      'croner',
      'prom-client',
      '@opentelemetry/api',
      'undici',
    ],
    reason: 'clock, chance, log and files are given to the layers above and know none of them',
  },
  {
    folder: 'src/runtime/artifacts/s3/',
    mayImport: ['src/runtime/', 'src/core/errors.ts', 'node:*', '@aws-sdk/client-s3'],
    reason: 'the S3 client is heavy: it stays in the one folder that is loaded only when an s3: store is named',
  },
  {
    folder: 'src/runtime/otlp/',
    mayImport: ['src/runtime/', 'src/core/errors.ts', 'node:*', '@opentelemetry/*'],
    reason:
      'the tracing SDK is heavy and optional: it stays in the one folder that is loaded only when it is asked for',
  },
  {
    folder: 'src/store/',
    mayImport: ['src/core/', 'node:*'],
    reason: 'the store keeps what core decided; who calls it and on which driver is not its business',
  },
  {
    folder: 'src/store/sqlite/',
    mayImport: ['src/core/', 'src/store/*.ts', 'node:*'],
    reason: 'a driver knows core, the interface and its own client; drivers share promises, not code',
  },
  {
    folder: 'src/store/postgres/',
    mayImport: ['src/core/', 'src/store/*.ts', 'node:*', 'postgres'],
    reason: 'a driver knows core, the interface and its own client; drivers share promises, not code',
  },
  {
    folder: 'src/store/copy/',
    mayImport: ['src/core/', 'src/store/*.ts'],
    reason: 'a copy goes from any driver to any other: it knows both by their interface alone',
  },
  {
    folder: 'src/store/conformance/',
    // It brings the clock and the chance that it tries a driver with.
    mayImport: ['src/core/', 'src/store/*.ts', 'src/runtime/', 'node:*'],
    reason: 'the suite is published for drivers written elsewhere: it must favour no driver and need no test runner',
  },
  {
    folder: 'src/operations/',
    // How an id or a secret is made and recognized, and what a seed draws, is said in one place, for all who need it.
    mayImport: [
      'src/core/',
      'src/store/',
      'src/runtime/id.ts',
      'src/runtime/secret.ts',
      'src/runtime/chance.ts',
      'zod',
      'node:*',
    ],
    reason: 'an operation says what may be done to stored jobs; the doors that offer it come later',
  },
  {
    folder: 'src/worker/',
    mayImport: ['src/core/', 'src/store/', 'src/runtime/', 'node:*'],
    reason: 'a worker turns claims into closes; people reach jobs through operations, not through it',
  },
  {
    folder: 'src/app/',
    mayImport: ['src/core/', 'src/store/', 'src/operations/', 'src/worker/', 'src/runtime/', 'zod', 'node:*'],
    reason: 'the job API must work in a program that has no server and no command line; it offers the same operations',
  },
  {
    folder: 'src/notify/',
    mayImport: ['src/app/', 'src/core/', 'src/runtime/', 'zod', 'node:*', 'nodemailer', 'undici'],
    reason: 'a delivery is a job like any other, submitted through the API that everybody has',
  },
  {
    folder: 'src/http/',
    mayImport: ['src/operations/', 'src/runtime/', 'src/core/', 'zod', 'node:*', 'fastify', '@fastify/*'],
    mayImportTypes: ['src/app/', 'src/store/'],
    reason: 'a door holds no logic: what it offers is in the table of operations, for every door alike',
  },
  {
    folder: 'src/cli/',
    // The computed name is the user's own app, which the command line loads; zod is for the sample app's input.
    mayImport: ['src/operations/', 'src/app/', 'src/http/', 'src/runtime/', 'src/core/', 'zod', 'node:*', COMPUTED],
    mayImportTypes: ['src/store/', 'src/worker/'],
    reason: 'a door holds no logic: what it offers is in the table of operations, for every door alike',
  },
  {
    folder: 'src/testing/',
    mayImport: ['src/app/', 'src/worker/', 'src/store/', 'src/runtime/', 'src/core/', 'zod', 'node:*'],
    reason: 'published as redress/testing, it must work with any test runner and without the doors',
  },
  {
    folder: 'dashboard/',
    // Which operations there are, who may do them and how they are asked for: as the command line knows it.
    mayImport: ['*', 'src/operations/catalog.ts', 'src/operations/request-of.ts', 'src/operations/caller.ts'],
    mayImportTypes: ['src/'],
    reason: 'the dashboard knows the server by HTTP only, as any other client does',
  },
  { folder: 'apps/', mayImport: PUBLIC_API, reason: 'an app shows that the public exports are enough' },
  {
    folder: 'apps/fetchbox/',
    // The computed name is a handler of the operator's own, which fetchbox loads from a folder.
    mayImport: ['apps/shared/', ...PUBLIC_API, COMPUTED],
    reason: 'an app shows that the public exports are enough',
  },
  {
    folder: 'examples/',
    mayImport: PUBLIC_API,
    reason: 'a reader copies an example: it must work outside this checkout',
  },
  {
    folder: 'bench/',
    // What starts a database or a browser is no part of what is measured; the marks of the watermark app are, and how
    // fetchbox moves one resource.
    mayImport: [
      ...PUBLIC_API,
      'apps/watermark/media/',
      'apps/shared/media/',
      'apps/fetchbox/transfer/',
      'test/support/forward-proxy.ts',
      'test/support/s3-server.ts',
      'test/support/postgres.ts',
      'test/browser/chromium.ts',
    ],
    reason: 'a benchmark measures what a user of the package would get',
  },
]

/** Files that may exceed the limit, each with the reason why splitting it would make it harder to read. */
export const LONG_FILES: Readonly<Record<string, string>> = {}

const LINES_MAX = 500

// ---------------------------------------------------------------------------------------------------------- imports

export function importProblems(path: string, text: string): string[] {
  const layer = isTest(path) ? undefined : layerOf(path)
  if (layer === undefined) return []
  const allowed = [layer.folder, ...layer.mayImport]
  return importsOf(path, text).flatMap(({ specifier, typeOnly, at }) => {
    const isFile = specifier.startsWith('.')
    const target = isFile ? posix.join(posix.dirname(path), specifier) : specifier
    const here = typeOnly ? [...allowed, ...(layer.mayImportTypes ?? [])] : allowed
    if (here.some((pattern) => (isFile ? holdsFile(pattern, target) : namesPackage(pattern, target)))) return []
    const others = layer.mayImport.join(', ')
    return [`${at} imports '${specifier}', but ${layer.folder} may import only itself and ${others}: ${layer.reason}.`]
  })
}

/** A folder that no line of the table names could import anything, unseen. */
export function unknownFolderProblems(path: string): string[] {
  const folder = /^src\/(store\/)?[^/]+\//.exec(path)?.[0] ?? 'src/'
  if (!path.startsWith('src/') || folder === 'src/' || LAYERS.some((layer) => layer.folder === folder)) return []
  return [`${path}: ${folder} is new: say where it stands in the layers (LAYERS in test/support/tidy-rules.ts).`]
}

function layerOf(path: string): Layer | undefined {
  return LAYERS.filter((layer) => path.startsWith(layer.folder)).sort((a, b) => b.folder.length - a.folder.length)[0]
}

function holdsFile(pattern: string, path: string): boolean {
  if (pattern.endsWith('/*.ts')) return posix.dirname(path) === posix.dirname(pattern)
  return pattern.endsWith('/') ? path.startsWith(pattern) : path === pattern
}

function namesPackage(pattern: string, specifier: string): boolean {
  if (pattern === '*') return specifier !== COMPUTED && !/^(node:|redress(\/|$))/.test(specifier)
  if (pattern.endsWith('*')) return specifier.startsWith(pattern.slice(0, -1))
  return specifier === pattern || specifier.startsWith(`${pattern}/`)
}

interface Import {
  specifier: string
  typeOnly: boolean
  at: string
}

function importsOf(path: string, text: string): Import[] {
  const imports: Import[] = []
  for (const { node, at } of nodesOf(path, text)) {
    const source = isImport(node) ? (node.source ?? node.expression) : requireArgument(node)
    if (!isNode(source)) continue
    imports.push({ specifier: constantText(source) ?? COMPUTED, typeOnly: isTypeOnly(node), at: at() })
  }
  return imports
}

const IMPORT_NODES = new Set([
  'ImportDeclaration',
  'ExportNamedDeclaration',
  'ExportAllDeclaration',
  'ImportExpression',
  'TSImportType',
  'TSExternalModuleReference',
])

const isImport = (node: Node): boolean => IMPORT_NODES.has(node.type)

function isTypeOnly(node: Node): boolean {
  if (node.type === 'TSImportType' || node.importKind === 'type' || node.exportKind === 'type') return true
  const specifiers = Array.isArray(node.specifiers) ? node.specifiers.filter(isNode) : []
  return (
    specifiers.length > 0 &&
    specifiers.every((specifier) => specifier.importKind === 'type' || specifier.exportKind === 'type')
  )
}

function requireArgument(node: Node): unknown {
  if (node.type !== 'CallExpression' || !isNamed(node.callee, 'require')) return undefined
  return Array.isArray(node.arguments) ? node.arguments[0] : undefined
}

// ---------------------------------------------------------------------------------------------------- time and chance

const IMPURE = new Set([
  'Date',
  'Temporal',
  'performance',
  'process',
  'console',
  'crypto',
  'fetch',
  'globalThis',
  'global',
  'setTimeout',
  'setInterval',
  'setImmediate',
  'queueMicrotask',
])

/** Core: nothing that reads a clock, draws lots, or reaches the outside. */
export function purityProblems(path: string, text: string): string[] {
  if (!path.startsWith('src/core/') || isTest(path)) return []
  const problems: string[] = []
  for (const { node, at, isReference } of nodesOf(path, text)) {
    const used = leavesCore(node, isReference)
    if (used === undefined) continue
    problems.push(`${at()} uses ${used}, but core has no I/O, clock or chance: take the value as an argument.`)
  }
  return problems
}

function leavesCore(node: Node, isReference: boolean): string | undefined {
  const name = String(node.name)
  if (isReference && IMPURE.has(name)) return name
  if (isMember(node, 'Math', 'random')) return 'Math.random'
  return node.type === 'MetaProperty' && isNamed(node.meta, 'import') ? 'import.meta' : undefined
}

/** These are given a clock and chance: whoever reads the machine's own cannot be simulated. */
export function clockProblems(path: string, text: string): string[] {
  const isStore = path.startsWith('src/store/')
  const isGiven = isStore || ['src/worker/', 'src/operations/', 'src/app/'].some((folder) => path.startsWith(folder))
  if (!isGiven || isTest(path)) return []
  const problems: string[] = []
  for (const { node, at, isReference } of nodesOf(path, text)) {
    // A driver may wait for other processes and machines: those do not live in its clock's time.
    const used = readsClock(node) ?? (isReference && !isStore ? setsTimer(node) : undefined)
    if (used === undefined) continue
    problems.push(`${at()} uses ${used}: use the clock or chance it was given, or a seed no longer repeats the run.`)
  }
  return problems
}

function readsClock(node: Node): string | undefined {
  if (isMember(node, 'Date', 'now')) return 'Date.now'
  if (isMember(node, 'Math', 'random')) return 'Math.random'
  const isEmptyCall = Array.isArray(node.arguments) && node.arguments.length === 0
  return isEmptyCall && isNamed(node.callee, 'Date') ? 'the present Date' : undefined
}

function setsTimer(node: Node): string | undefined {
  const name = String(node.name)
  return ['setTimeout', 'setInterval', 'performance'].includes(name) ? name : undefined
}

// -------------------------------------------------------------------------------------------------------------- tests

const isTest = (path: string): boolean => path.startsWith('test/') || path.endsWith('.test.ts')

export function evasionProblems(path: string, text: string): string[] {
  if (!isTest(path) && !path.startsWith('src/store/conformance/')) return []
  const problems: string[] = []
  for (const { node, at } of nodesOf(path, text)) {
    const name = node.type === 'MemberExpression' ? propertyName(node) : undefined
    if (name !== undefined && ['skip', 'only', 'todo'].includes(name) && startsWithTest(node.object)) {
      problems.push(`${at()} has .${name}: a promise that is not checked is not kept. Mend it, or take it out.`)
    }
  }
  return problems
}

function startsWithTest(node: unknown): boolean {
  if (!isNode(node)) return false
  if (['test', 'it', 'describe', 'suite', 'bench'].some((name) => isNamed(node, name))) return true
  return startsWithTest(node.object ?? node.callee)
}

export function sleepProblems(path: string, text: string): string[] {
  if (!isTest(path) || path.startsWith('test/support/')) return []
  return [...nodesOf(path, text)]
    .filter(({ node }) => sleeps(node))
    .map(
      ({ at }) =>
        `${at()} sleeps: too short on a slow machine, too long on a fast one. Move a virtual clock, ` +
        'or wait for a condition with a helper of test/support/.',
    )
}

function sleeps(node: Node): boolean {
  if (node.type === 'ImportDeclaration' && isNode(node.source)) {
    return /^(node:)?timers\/promises$/.test(constantText(node.source) ?? '')
  }
  if (node.type !== 'CallExpression' || !Array.isArray(node.arguments)) return false
  if (isMember(node.callee, 'Atomics', 'wait')) return true
  const isTimer = isNamed(node.callee, 'setTimeout') || isMember(node.callee, 'globalThis', 'setTimeout')
  const delay = node.arguments[1]
  return isTimer && isNode(delay) && delay.value !== 0
}

// -------------------------------------------------------------------------------------------------------------- files

export function lengthProblems(path: string, text: string, exceptions = LONG_FILES): string[] {
  if (!/\.(ts|tsx|css)$/.test(path)) return []
  const lines = text.split('\n').length - (text.endsWith('\n') ? 1 : 0)
  const reason = exceptions[path]
  if (lines > LINES_MAX && reason === undefined) {
    return [`${path} has ${lines} lines, more than ${LINES_MAX}: split it by idea, or say in LONG_FILES why not.`]
  }
  if (lines <= LINES_MAX && reason !== undefined) {
    return [`${path} has ${lines} lines and needs no exception any more: take it out of LONG_FILES.`]
  }
  return []
}

/** The compiler carries only TypeScript into dist/: anything else would be missing from the published package. */
export function strayFileProblems(path: string): string[] {
  if (!path.startsWith('src/') || /\.(ts|md)$/.test(path)) return []
  return [`${path}: the build leaves this file behind; make it a .ts module, or keep it outside src/.`]
}

// Put together here so that this file does not find itself.
const BANNED_WORDS = [`TO${'DO'}`, `FIX${'ME'}`]

export function wordProblems(path: string, text: string): string[] {
  return text
    .split('\n')
    .flatMap((line, i) =>
      BANNED_WORDS.filter((word) => new RegExp(`\\b${word}\\b`).test(line)).map(
        (word) => `${path}:${i + 1} says ${word}: do it, or describe the limit for the reader who meets it.`,
      ),
    )
}

// --------------------------------------------------------------------------------------------- what the documents say

interface Manifest {
  dependencies?: Record<string, string>
  devDependencies?: Record<string, string>
  optionalDependencies?: Record<string, string>
  peerDependencies?: Record<string, string>
  overrides?: Record<string, unknown>
}

/** `document` is docs/dependencies.md: a table whose first cell is the package's name in backticks. */
export function dependencyProblems(manifest: Manifest, document: string): string[] {
  const { dependencies, devDependencies, optionalDependencies, peerDependencies, overrides } = manifest
  const used = new Set(
    Object.keys({ ...dependencies, ...devDependencies, ...optionalDependencies, ...peerDependencies, ...overrides }),
  )
  const rows = [...document.matchAll(/^\|\s*`([^`]+)`\s*\|(.*)\|\s*$/gm)]
  const explained = new Set(rows.map((row) => row[1] as string))
  return [
    ...[...used]
      .filter((name) => !explained.has(name))
      .map((name) => `package.json has ${name}, but docs/dependencies.md does not say why.`),
    ...[...explained]
      .filter((name) => !used.has(name))
      .map((name) => `docs/dependencies.md explains ${name}, which package.json does not have.`),
    ...rows
      .filter((row) => !/[a-z]{3}/i.test(row[2] as string))
      .map((row) => `docs/dependencies.md names ${row[1]} but gives no reason for it.`),
  ]
}

const TEST_COMMAND = 'npm ci && npm test'
const START_COMMAND = 'npm ci && npm start'

export function readmeProblems(readme: string, ci: string): string[] {
  const problems = [TEST_COMMAND, START_COMMAND]
    .filter((command) => !hasLine(readme, command))
    .map((command) => `README.md has no line "${command}": a stranger must be able to copy it.`)
  if (!hasLine(ci, TEST_COMMAND)) problems.push(`.ci/run does not call "${TEST_COMMAND}", the README's test command.`)
  return problems
}

/** As a command of its own; a trailing comment may explain it. */
const hasLine = (text: string, command: string): boolean =>
  text.split('\n').some((line) => line.replace(/\s+#.*$/, '').trim() === command)

// ------------------------------------------------------------------------------------------------------- syntax trees

interface Node {
  type: string
  start: number
  [key: string]: unknown
}

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && typeof (value as Node).type === 'string'

const isNamed = (node: unknown, name: string): boolean =>
  isNode(node) && node.type === 'Identifier' && node.name === name

const isMember = (node: unknown, object: string, property: string): boolean =>
  isNode(node) && node.type === 'MemberExpression' && isNamed(node.object, object) && propertyName(node) === property

function propertyName(member: Node): string | undefined {
  const property = member.property
  if (!isNode(property)) return undefined
  return member.computed === true ? constantText(property) : String(property.name)
}

function constantText(node: Node): string | undefined {
  if (node.type === 'Literal' && typeof node.value === 'string') return node.value
  const quasis = node.quasis
  if (node.type !== 'TemplateLiteral' || !Array.isArray(quasis) || quasis.length !== 1) return undefined
  return (quasis[0] as { value: { cooked: string } }).value.cooked
}

/** Names that follow a dot or stand before a colon belong to their object and say nothing about the global. */
const NAME_POSITIONS: Readonly<Record<string, string>> = {
  MemberExpression: 'property',
  TSQualifiedName: 'right',
  Property: 'key',
  PropertyDefinition: 'key',
  MethodDefinition: 'key',
  TSPropertySignature: 'key',
  TSMethodSignature: 'key',
  ImportSpecifier: 'imported',
  ExportSpecifier: 'exported',
}

interface Found {
  node: Node
  /** A name that stands for itself: a variable, a global or a type, not a property of something. */
  isReference: boolean
  at: () => string
}

function* nodesOf(path: string, text: string): Generator<Found> {
  const { program, errors } = parseSync(path, text)
  if (errors[0] !== undefined) throw new SyntaxError(`${path}: ${errors[0].message}`)
  const at = (node: Node) => `${path}:${text.slice(0, node.start).split('\n').length}`

  function* below(node: Node, isReference: boolean): Generator<Found> {
    yield { node, isReference: isReference && node.type === 'Identifier', at: () => at(node) }
    for (const [key, value] of Object.entries(node)) {
      const isName = NAME_POSITIONS[node.type] === key && node.computed !== true
      for (const child of Array.isArray(value) ? value : [value]) if (isNode(child)) yield* below(child, !isName)
    }
  }
  yield* below(program as unknown as Node, true)
}
