import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'
import { fenced, page, table } from './reference-text.ts'

const PACKAGE = join(import.meta.dirname, '../packages/redress')

/** A type longer than this is shown by its name only, with a link to its own entry or none. */
const TYPE_CHARS_MAX = 240

interface Entry {
  name: string
  /** Empty if its author wrote no comment. */
  comment: string
  text: string
}

/** The exported names of one subpath, sorted, each with its entry in the reference. */
export type Reference = Readonly<Record<string, readonly Entry[]>>

let made: Reference | null = null

/** Made once per process: reading all types takes some seconds. */
export function apiReference(): Reference {
  made ??= readTypes()
  return made
}

export const pathOf = (subpath: string): string => `docs/reference/api/${subpath === '' ? 'redress' : subpath}.md`

const moduleOf = (subpath: string): string => (subpath === '' ? 'redress' : `redress/${subpath}`)

/** The pages of the API reference by their path: one for each subpath of the package. */
export const API_PAGES: Readonly<Record<string, () => string>> = Object.fromEntries(
  subpaths().map((subpath) => [pathOf(subpath), () => apiPage(subpath)]),
)

/** '' is the package itself. */
export function subpaths(): string[] {
  const manifest = JSON.parse(readFileSync(join(PACKAGE, 'package.json'), 'utf8')) as { exports: object }
  return Object.keys(manifest.exports)
    .filter((name) => name !== './package.json')
    .map((name) => name.replace(/^\.\/?/, ''))
}

function apiPage(subpath: string): string {
  const entries = apiReference()[subpath] ?? []
  const name = moduleOf(subpath)
  return page(
    name,
    `Every name that \`import { ... } from '${name}'\` gives, made from the types and their comments. [Exports](../exports.md) lists the
names of all subpaths.`,
    nameTable(entries, ''),
    ...entries.map(({ text }) => text),
  )
}

/** Each name with a link to its entry on `page`. */
export function nameTable(entries: readonly Entry[], page: string): string {
  const seen = new Map<string, number>()
  const rows = entries.map(({ name, comment }) => {
    const anchor = name.toLowerCase()
    const before = seen.get(anchor) ?? 0
    seen.set(anchor, before + 1)
    // As GitHub names the second heading with the same text.
    return [`[\`${name}\`](${page}#${before === 0 ? anchor : `${anchor}-${before}`})`, firstSentence(comment)]
  })
  return table(['name', 'is'], rows)
}

const firstSentence = (comment: string): string =>
  /^.*?[.:](?= [A-Z`]|$)/s.exec(comment.replaceAll('\n', ' '))?.[0] ?? comment

function readTypes(): Reference {
  const files = subpaths().map((subpath) => join(PACKAGE, 'src', subpath, 'index.ts'))
  const options: ts.CompilerOptions = {
    target: ts.ScriptTarget.ES2024,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    customConditions: ['redress-source'],
    lib: ['lib.es2024.d.ts', 'lib.esnext.disposable.d.ts'],
    types: ['node'],
    strict: true,
    exactOptionalPropertyTypes: true,
    allowImportingTsExtensions: true,
    noEmit: true,
    skipLibCheck: true,
  }
  const program = ts.createProgram(files, options)
  const writer = new Writer(program.getTypeChecker())
  return Object.fromEntries(
    subpaths().map((subpath, i) => {
      const source = program.getSourceFile(files[i] as string)
      if (source === undefined) throw new Error(`there is no ${files[i]}`)
      return [subpath, writer.entriesOf(source)]
    }),
  )
}

class Writer {
  readonly #checker: ts.TypeChecker

  constructor(checker: ts.TypeChecker) {
    this.#checker = checker
  }

  entriesOf(source: ts.SourceFile): Entry[] {
    const module = this.#checker.getSymbolAtLocation(source)
    if (module === undefined) return []
    return this.#checker
      .getExportsOfModule(module)
      .map((symbol) => this.#entry(symbol))
      .sort((a, b) => (a.name.toLowerCase() < b.name.toLowerCase() ? -1 : 1))
  }

  #entry(exported: ts.Symbol): Entry {
    const symbol = exported.flags & ts.SymbolFlags.Alias ? this.#checker.getAliasedSymbol(exported) : exported
    const { name } = exported
    const declarations = symbol.declarations ?? []
    const comment = this.#comment(symbol)
    const parts = declarations.flatMap((declaration) => this.#declared(name, symbol, declaration))
    return { name, comment, text: [`## ${name}`, comment, ...parts].filter((part) => part !== '').join('\n\n') }
  }

  #declared(name: string, symbol: ts.Symbol, node: ts.Declaration): string[] {
    if (ts.isFunctionDeclaration(node)) {
      return node.body !== undefined && (symbol.declarations ?? []).length > 1
        ? []
        : [fenced(`function ${oneLine(headOf(node))}`, 'ts')]
    }
    if (ts.isClassDeclaration(node)) {
      return [
        fenced(oneLine(`class ${name}${typeParameters(node)}${heritage(node)}`), 'ts'),
        this.#members(node.members),
      ]
    }
    if (ts.isInterfaceDeclaration(node)) {
      const head = fenced(oneLine(`interface ${name}${typeParameters(node)}`), 'ts')
      const own = this.#members(node.members)
      return [
        head,
        node.heritageClauses === undefined ? own : this.#properties(this.#checker.getTypeAtLocation(node.name)),
      ]
    }
    if (ts.isTypeAliasDeclaration(node)) return this.#alias(name, node)
    if (ts.isVariableDeclaration(node)) return this.#constant(name, symbol, node)
    return []
  }

  #alias(name: string, node: ts.TypeAliasDeclaration): string[] {
    const written = oneLine(node.type.getText())
    const head = `type ${name}${typeParameters(node)}`
    const type = this.#checker.getTypeAtLocation(node.name)
    // What a schema infers says nothing to a reader; its fields do.
    if (/\bz\.\w+</.test(written) || /^ReturnType</.test(written)) {
      return [fenced(head, 'ts'), this.#properties(type)]
    }
    if (ts.isTypeLiteralNode(node.type)) return [fenced(head, 'ts'), this.#members(node.type.members)]
    return [fenced(written.length > 600 ? head : `${head} = ${written}`, 'ts')]
  }

  #constant(name: string, symbol: ts.Symbol, node: ts.VariableDeclaration): string[] {
    const type = this.#checker.getTypeOfSymbolAtLocation(symbol, node)
    const [call] = type.getCallSignatures()
    if (call !== undefined) return [fenced(`function ${name}${this.#signature(call)}`, 'ts')]
    if (node.type !== undefined) return [fenced(oneLine(`const ${name}: ${node.type.getText()}`), 'ts')]
    if (this.#checker.isArrayLikeType(type)) return [fenced(`const ${name}: ${this.#typeText(type)}`, 'ts')]
    const members = type.getProperties()
    const methods = members.filter((member) => this.#calls(member, node).length > 0)
    if (methods.length === 0) return [fenced(`const ${name}`, 'ts')]
    return methods.map((method) => {
      const shown = this.#calls(method, node).map((one) => `${name}.${method.name}${this.#signature(one)}`)
      return [fenced(shown.join('\n'), 'ts'), this.#comment(method)].filter((part) => part !== '').join('\n\n')
    })
  }

  #calls(symbol: ts.Symbol, at: ts.Node): readonly ts.Signature[] {
    return this.#checker.getTypeOfSymbolAtLocation(symbol, at).getCallSignatures()
  }

  #signature(signature: ts.Signature): string {
    return oneLine(this.#checker.signatureToString(signature, undefined, ts.TypeFormatFlags.NoTruncation))
  }

  #members(members: ts.NodeArray<ts.ClassElement | ts.TypeElement>): string {
    const lines = members.flatMap((member) => {
      const symbol = member.name === undefined ? undefined : this.#checker.getSymbolAtLocation(member.name)
      if (isHidden(member) || symbol === undefined) return []
      const comment = this.#comment(symbol)
      return [line(oneLine(this.#memberText(member, symbol)), comment)]
    })
    return [...new Set(lines)].join('\n')
  }

  #memberText(member: ts.ClassElement | ts.TypeElement, symbol: ts.Symbol): string {
    const name = member.name?.getText() ?? ''
    if (ts.isMethodDeclaration(member) || ts.isMethodSignature(member)) return headOf(member)
    if (ts.isGetAccessorDeclaration(member)) return `${name}: ${member.type?.getText() ?? 'unknown'}`
    const isOptional = (symbol.flags & ts.SymbolFlags.Optional) !== 0
    const declared = (ts.isPropertyDeclaration(member) || ts.isPropertySignature(member)) && member.type?.getText()
    const type = declared || this.#typeText(this.#checker.getTypeOfSymbolAtLocation(symbol, member))
    return `${name}${isOptional ? '?' : ''}: ${type}`
  }

  /** All fields of a type, with those it inherits. The meanings of fields that a schema gives are in the schema. */
  #properties(type: ts.Type): string {
    return type
      .getProperties()
      .map((property) => {
        const node = property.declarations?.[0]
        if (node === undefined) return line(property.name, '')
        const comment = this.#comment(property) || described(node)
        if (ts.isMethodSignature(node) || (ts.isPropertySignature(node) && node.type !== undefined)) {
          return line(oneLine(this.#memberText(node, property)), comment)
        }
        const isOptional = (property.flags & ts.SymbolFlags.Optional) !== 0
        const text = this.#typeText(this.#checker.getTypeOfSymbolAtLocation(property, node))
        return line(`${property.name}${isOptional ? '?' : ''}: ${text}`, comment)
      })
      .join('\n')
  }

  #typeText(type: ts.Type): string {
    const flags = ts.TypeFormatFlags.NoTruncation | ts.TypeFormatFlags.UseAliasDefinedOutsideCurrentScope
    const text = oneLine(this.#checker.typeToString(type, undefined, flags)).replaceAll(/import\("[^"]*"\)\./g, '')
    if (text.length <= TYPE_CHARS_MAX) return text
    return this.#checker.isArrayType(type) ? 'object[]' : 'object'
  }

  #comment(symbol: ts.Symbol): string {
    const text = ts.displayPartsToString(symbol.getDocumentationComment(this.#checker))
    // A single line break is only where a line of the source ended.
    return text.trim().replaceAll(/([^\n])\n(?!\n|- |\d\. )/g, '$1 ')
  }
}

/** What a caller sees: a parameter with a default value is optional, and one that is taken apart has no name. */
function headOf(node: ts.FunctionDeclaration | ts.MethodDeclaration | ts.MethodSignature): string {
  const parameters = node.parameters.map((parameter) => {
    const name = ts.isIdentifier(parameter.name) ? parameter.name.text : 'options'
    const isOptional = parameter.questionToken !== undefined || parameter.initializer !== undefined
    const rest = parameter.dotDotDotToken === undefined ? '' : '...'
    return `${rest}${name}${isOptional ? '?' : ''}: ${parameter.type?.getText() ?? 'unknown'}`
  })
  const optional = 'questionToken' in node && node.questionToken !== undefined ? '?' : ''
  const answer = node.type === undefined ? '' : `: ${node.type.getText()}`
  return `${node.name?.getText() ?? ''}${optional}${typeParameters(node)}(${parameters.join(', ')})${answer}`
}

function typeParameters(node: { typeParameters?: ts.NodeArray<ts.TypeParameterDeclaration> | undefined }): string {
  const all = (node.typeParameters ?? []).map((parameter) => parameter.getText())
  return all.length === 0 ? '' : `<${all.join(', ')}>`
}

function heritage(node: ts.ClassDeclaration | ts.InterfaceDeclaration): string {
  const all = (node.heritageClauses ?? []).map((clause) => clause.getText())
  return all.length === 0 ? '' : ` ${all.join(' ')}`
}

/** Private members, and those that only another part of Redress calls. */
function isHidden(member: ts.ClassElement | ts.TypeElement): boolean {
  if (ts.isConstructorDeclaration(member)) return true
  if (member.name !== undefined && ts.isPrivateIdentifier(member.name)) return true
  if (ts.isMethodDeclaration(member) && isOverloaded(member)) return true
  const modifiers = ts.canHaveModifiers(member) ? ts.getModifiers(member) : undefined
  return (modifiers ?? []).some(
    ({ kind }) => kind === ts.SyntaxKind.PrivateKeyword || kind === ts.SyntaxKind.StaticKeyword,
  )
}

/** The implementation below its overloads, which are shown instead. */
function isOverloaded(member: ts.MethodDeclaration): boolean {
  if (member.body === undefined || !ts.isClassDeclaration(member.parent)) return false
  const name = member.name.getText()
  return member.parent.members.some(
    (other) => other !== member && ts.isMethodDeclaration(other) && other.name.getText() === name,
  )
}

function described(node: ts.Node): string {
  const text = node.getText()
  const quoted = [...text.matchAll(/\.describe\(\s*(['"`])((?:\\.|(?!\1).)*)\1,?\s*\)/gs)].at(-1)?.[2]
  return (quoted ?? '').replaceAll("\\'", "'").replaceAll('\\`', '`')
}

const line = (code: string, text: string): string => (text === '' ? `- \`${code}\`` : `- \`${code}\`: ${text}`)

/** The members of a type that stood on lines of their own end with a semicolon. */
const oneLine = (text: string): string =>
  text
    .replaceAll(/([^\s{(,;|&<=:?])\n\s+(?=(?:readonly )?[\w']+\??[:(<])/g, '$1; ')
    .replaceAll(/\/\*\*.*?\*\//gs, '')
    .replaceAll(/^\s*\/\/.*$/gm, '')
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/\(\s+/g, '(')
    .replaceAll(/,?\s+\)/g, ')')
    .replaceAll(/(\w\??): \| /g, '$1: ')
    .trim()
