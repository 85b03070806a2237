import { spawn } from 'node:child_process'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { environment, folder, ROOT } from '../../../packages/redress/test/cli/command.ts'
import { until } from '../../../test/support/until.ts'
import { needsFfmpeg, programs } from './clips.ts'

needsFfmpeg()

interface Step {
  commands: string
  /** What the page says that they print; null where it says nothing. */
  printed: string | null
}

function stepsOf(page: string): Step[] {
  const steps: Step[] = []
  for (const [, language, text = ''] of page.matchAll(/^```(\w+)\n(.*?)^```/gms)) {
    if (language === 'sh') steps.push({ commands: text, printed: null })
    else steps.push({ ...(steps.pop() as Step), printed: text })
  }
  return steps
}

/** A bound for a machine that hangs, not a measure of speed. */
const LONGEST_MS = 120_000
/** Not to be found in what any command says. */
const BETWEEN = '\u001e\n'

/** One shell does everything, as a person's would: it keeps what it was told. Gives what each step printed. */
async function typed(steps: readonly Step[], home: string, env: Record<string, string>): Promise<string[]> {
  const script = join(home, 'day.sh')
  const parts = steps.map(({ commands }) => `${commands}printf '\\036\\n'\n`)
  writeFileSync(script, `set -euo pipefail\nexec 2>&1\n${parts.join('')}`)
  // A group of its own, so that what the page starts can be ended with it wherever it stopped.
  const shell = spawn('bash', [script], {
    cwd: home,
    env: environment(env),
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(() => {
    try {
      process.kill(-Number(shell.pid), 'SIGKILL')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    }
  })
  let said = ''
  shell.stdout.setEncoding('utf8').on('data', (part: string) => {
    said += part
  })
  let code: number | null | 'none yet' = 'none yet'
  shell.on('close', (given) => {
    code = given
  })
  // A step that waits in vain is told by name, below, and not by the time that it took.
  await until('the day is over', () => code !== 'none yet', { withinMs: LONGEST_MS, everyMs: 50 }).catch(
    () => undefined,
  )
  const printed = said.split(BETWEEN)
  expect(code, `it stopped in step ${printed.length}, ${steps[printed.length - 1]?.commands}, with:\n${said}`).toBe(0)
  return printed.slice(0, -1)
}

const UUID = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}'
/** The same wherever they stand. */
const JOBS = ['job', 'retry', 'other']
const DIFFERENT: Readonly<Record<string, string>> = {
  time: String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`,
  n: String.raw`\d+`,
  pid: String.raw`\d+`,
  host: '[^"]+',
  worker: String.raw`[^\s"]+`,
}

/** Columns are as wide as what is in them, and names are as long as the machine's: neither is what a page promises. */
const even = (text: string): string =>
  text
    .split('\n')
    .map((line) => line.replaceAll(/(?<=\S) +/g, ' ').trimEnd())
    .join('\n')

/** What the page shows, as an expression. */
function expected(printed: string, known: Map<string, string>): { expression: RegExp; names: string[] } {
  const names: string[] = []
  const parts = even(printed).split(/<(\w+)>/)
  const source = parts.map((part, at) => {
    if (at % 2 === 0) return part.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`)
    if (!JOBS.includes(part)) return DIFFERENT[part] ?? `<${part}>`
    const id = known.get(part)
    if (id !== undefined) return id
    if (names.includes(part)) return String.raw`\k<${part}>`
    names.push(part)
    return `(?<${part}>${UUID})`
  })
  return { expression: new RegExp(`^${source.join('')}$`), names }
}

test('the commands of the proxx guide work as written, also after a worker is killed [P41 P44 P53 P54 P55 P56 P65]', async () => {
  const steps = stepsOf(readFileSync(join(ROOT, 'docs/guides/systems/proxx-day.md'), 'utf8'))
  expect(steps.length).toBeGreaterThan(15)
  const home = folder()
  const [bin, studio] = [join(home, 'bin'), join(home, 'studio')]
  mkdirSync(bin)
  symlinkSync(join(ROOT, 'packages/redress/bin/redress'), join(bin, 'redress'))
  symlinkSync(programs.ffmpeg.path, join(bin, 'ffmpeg'))
  const env = { STUDIO: studio, PATH: `${bin}:${process.env.PATH}`, LC_ALL: 'C', PROXX_FREE_MB: '0' }
  const printed = await typed(steps, home, env)

  const known = new Map<string, string>()
  for (const [at, { commands, printed: shown }] of steps.entries()) {
    const said = even(
      String(printed[at])
        // In a checkout it calls itself by its path, the shorter one.
        .replaceAll(/[^\s`]*\/bin\/redress/g, 'redress')
        .replaceAll(studio, '<studio>')
        // What the shell itself has to say of a process that was killed.
        .replaceAll(/^.*line \d+: +\d+ Killed .*\n/gm, ''),
    )
    const { expression, names } = expected(shown ?? '', known)
    expect(said, commands).toMatch(expression)
    const { groups = {} } = expression.exec(said) as RegExpExecArray
    for (const name of names) known.set(name, String(groups[name]))
  }
  expect([...known.keys()]).toEqual(JOBS)
  expect(new Set(known.values()).size).toBe(JOBS.length)
}, 150_000)
