/**
 * The rules that keep the repository in shape, as functions over a path and its text, so that each can be tried on a
 * bad example. Every one answers with sentences: where, what, and why it matters. `tidy.test.ts` applies them.
 */
import { posix } from 'node:path'
import { parseSync } from 'vite'
import { COMPUTED, LAYERS, type Layer } from './layers.ts'

/** Files that may exceed the limit, each with the reason why splitting it would make it harder to read. */
export const LONG_FILES: Readonly<Record<string, string>> = {}

const LINES_MAX = 500
const FILES_MAX = 20

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
  const folder = /^packages\/redress\/src\/(store\/)?[^/]+\//.exec(path)?.[0] ?? 'packages/redress/src/'
  if (
    !path.startsWith('packages/redress/src/') ||
    folder === 'packages/redress/src/' ||
    LAYERS.some((layer) => layer.folder === folder)
  )
    return []
  return [`${path}: ${folder} is new: say where it stands in the layers (test/support/layers.ts).`]
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
  if (!path.startsWith('packages/redress/src/core/') || isTest(path)) return []
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
  const isStore = path.startsWith('packages/redress/src/store/')
  const isGiven =
    isStore ||
    ['packages/redress/src/worker/', 'packages/redress/src/operations/', 'packages/redress/src/app/'].some((folder) =>
      path.startsWith(folder),
    )
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

const isTest = (path: string): boolean => /(^|\/)test\//.test(path) || path.endsWith('.test.ts')

export function evasionProblems(path: string, text: string): string[] {
  if (!isTest(path) && !path.startsWith('packages/redress/src/store/conformance/')) return []
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
  return nodesOf(path, text)
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

/** A reader sees a folder as a list: what does not fit into a short one needs rooms. */
export function crowdedProblems(paths: readonly string[]): string[] {
  const byFolder = Map.groupBy(paths, (path) => posix.dirname(path))
  return [...byFolder].flatMap(([folder, files]) =>
    files.length <= FILES_MAX
      ? []
      : [`${folder} has ${files.length} files, more than ${FILES_MAX}: sort them into folders by subject.`],
  )
}

/** The compiler carries only TypeScript into dist/: anything else would be missing from the published package. */
export function strayFileProblems(path: string): string[] {
  if (!path.startsWith('packages/redress/src/') || /\.(ts|md)$/.test(path)) return []
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
export function dependencyProblems(manifests: readonly Manifest[], document: string): string[] {
  const used = new Set(
    manifests
      .flatMap(({ dependencies, devDependencies, optionalDependencies, peerDependencies, overrides }) =>
        Object.keys({
          ...dependencies,
          ...devDependencies,
          ...optionalDependencies,
          ...peerDependencies,
          ...overrides,
        }),
      )
      .filter((name) => !/^@?redress(\/|$)/.test(name)),
  )
  const rows = [...document.matchAll(/^\|\s*`([^`]+)`\s*\|(.*)\|\s*$/gm)]
  const explained = new Set(rows.map((row) => row[1] as string))
  return [
    ...[...used]
      .filter((name) => !explained.has(name))
      .map((name) => `A package.json has ${name}, but docs/dependencies.md does not say why.`),
    ...[...explained]
      .filter((name) => !used.has(name))
      .map((name) => `docs/dependencies.md explains ${name}, which no package.json has.`),
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

function nodesOf(path: string, text: string): Found[] {
  const { program, errors } = parseSync(path, text)
  if (errors[0] !== undefined) throw new SyntaxError(`${path}: ${errors[0].message}`)
  const at = (node: Node) => `${path}:${text.slice(0, node.start).split('\n').length}`
  const found: Found[] = []
  const visit = (node: Node, isReference: boolean): void => {
    found.push({ node, isReference: isReference && node.type === 'Identifier', at: () => at(node) })
    const nameKey = node.computed === true ? undefined : NAME_POSITIONS[node.type]
    for (const key in node) {
      const value = node[key]
      if (Array.isArray(value)) for (const child of value) isNode(child) && visit(child, key !== nameKey)
      else if (isNode(value)) visit(value, key !== nameKey)
    }
  }
  visit(program as unknown as Node, true)
  return found
}
