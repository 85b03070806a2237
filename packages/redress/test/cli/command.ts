import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { until } from '../../../../test/support/until.ts'
import { WarmCommand } from './warm-command.ts'

export const ROOT = join(import.meta.dirname, '../../../..')
const BIN = join(ROOT, 'packages/redress/bin/redress')

export interface Answer {
  code: number
  stdout: string
  stderr: string
}

interface CallOptions {
  cwd?: string
  env?: Record<string, string>
  stdin?: string
}

const warm = new WarmCommand()

/** The command, run by a process that stays for the next one, where that can make no difference. */
export function redress(args: readonly string[], options: CallOptions = {}): Promise<Answer> {
  const { cwd = ROOT, env = {}, stdin } = options
  if (stdin !== undefined || warm.isBusy) return redressAlone(args, options)
  return warm.do({ args: [...args], cwd, env: environment(env) as Record<string, string> })
}

/** The real command in a process of its own. */
export function redressAlone(
  args: readonly string[],
  { cwd = ROOT, env = {}, stdin }: CallOptions = {},
): Promise<Answer> {
  return new Promise((resolve) => {
    const child = execFile(BIN, [...args], { cwd, env: environment(env) }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr })
    })
    child.stdin?.end(stdin ?? '')
  })
}

export async function json(args: readonly string[], options?: CallOptions): Promise<unknown> {
  const { code, stdout, stderr } = await redress([...args, '--json'], options)
  if (code !== 0) throw new Error(`redress ${args.join(' ')} answered ${code}: ${stderr}`)
  return JSON.parse(stdout)
}

export interface Running {
  child: ChildProcess
  stdout(): string
  stderr(): string
  ended: Promise<number | null>
}

/** A command that goes on until it is told to stop; what a test leaves behind is killed. */
export async function running(args: readonly string[], options: CallOptions & { says: string }): Promise<Running> {
  const child = spawn(BIN, [...args], { cwd: options.cwd ?? ROOT, env: environment(options.env ?? {}) })
  let [out, err] = ['', '']
  child.stdout.on('data', (part) => {
    out += part
  })
  child.stderr.on('data', (part) => {
    err += part
  })
  const ended = new Promise<number | null>((resolve) => child.on('close', (code) => resolve(code)))
  onTestFinished(() => void child.kill('SIGKILL'))
  await until(`redress ${args.join(' ')} says "${options.says}"; it said ${out}${err}`, () =>
    (out + err).includes(options.says),
  )
  return { child, stdout: () => out, stderr: () => err, ended }
}

export function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'redress-cli-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

/** What npm and the test runner tell their children would only mislead the command. */
export function environment(given: Record<string, string>): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(
    ([name]) => !/^(npm_|NODE_|VITEST|REDRESS_|NO_COLOR|FORCE_)/i.test(name),
  )
  // Any port that is free: several servers run at once.
  return { ...Object.fromEntries(own), USER: 'tess', REDRESS_PORT: '0', ...given }
}
