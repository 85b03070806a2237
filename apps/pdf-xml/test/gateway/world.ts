import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { memoryPages, validateXML } from 'xmllint-wasm'
import type { RunGatewayOptions } from '../../src/gateway/main.ts'

export const GATEWAY = join(import.meta.dirname, '../../src/gateway')
const XSD = readFileSync(join(GATEWAY, 'schema/pdf-xml-1.xsd'), 'utf8')

export interface Answer {
  status: number
  headers: Headers
  text: string
  /** Of a refusal. */
  code: string | undefined
  message: string | undefined
}

export async function send(
  url: string,
  pdf: Buffer,
  {
    mapping = 'text',
    headers = {},
    signal,
  }: { mapping?: string; headers?: Record<string, string>; signal?: AbortSignal } = {},
): Promise<Answer> {
  const response = await fetch(`${url}/process?mapping=${encodeURIComponent(mapping)}`, {
    method: 'POST',
    body: new Uint8Array(pdf),
    headers: { 'content-type': 'application/pdf', ...headers },
    ...(signal !== undefined && { signal }),
  })
  return answerOf(response)
}

export async function answerOf(response: Response): Promise<Answer> {
  const text = await response.text()
  const isJson = response.headers.get('content-type')?.startsWith('application/json') ?? false
  const error =
    isJson && text !== '' ? (JSON.parse(text) as { error?: { code: string; message: string } }).error : undefined
  return { status: response.status, headers: response.headers, text, code: error?.code, message: error?.message }
}

/** What the validator has against these documents, all of them in one run. */
export async function invalidities(documents: ReadonlyMap<string, string>): Promise<string[]> {
  const xml = [...documents].map(([fileName, contents]) => ({ fileName: `${fileName}.xml`, contents }))
  const { errors } = await validateXML({
    xml,
    schema: XSD,
    initialMemoryPages: 1024 * memoryPages.MiB,
    maxMemoryPages: 1024 * memoryPages.MiB,
  })
  return errors.map(({ rawMessage }) => rawMessage)
}

export interface OwnProcess {
  url: string
  child: ChildProcess
  pid: number
}

/** The gateway as a process of its own, as a server runs it. */
export async function startProcess(options: RunGatewayOptions): Promise<OwnProcess> {
  const flags = ['--conditions=redress-source', '--disable-warning=ExperimentalWarning']
  const child = spawn(process.execPath, [...flags, join(GATEWAY, 'main.ts'), JSON.stringify(options)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string]
  return { url: (JSON.parse(line) as { url: string }).url, child, pid: child.pid as number }
}

/** Processes that this one has started and that are still there, and those that they have. */
export function descendants(pid: number): number[] {
  const parents = new Map<number, number>()
  for (const name of readdirSync('/proc')) {
    const stat = /^\d+$/.test(name) ? statOf(Number(name)) : undefined
    if (stat !== undefined && stat.state !== 'Z') parents.set(Number(name), stat.parent)
  }
  const below = (of: number): number[] =>
    [...parents].filter(([, parent]) => parent === of).flatMap(([child]) => [child, ...below(child)])
  return below(pid)
}

function statOf(pid: number): { state: string; parent: number } | undefined {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
    return { state: fields[0] ?? '', parent: Number(fields[1]) }
  } catch {
    // It ended between the list and the look.
    return undefined
  }
}

export function rssMb(pid: number): number {
  try {
    return (Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1]) * 4096) / 2 ** 20
  } catch {
    return 0
  }
}
