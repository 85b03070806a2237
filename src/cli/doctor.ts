import { type Diagnosis, examine, type Finding } from '../app/doctor.ts'
import { oneLine } from '../core/printable.ts'
import { systemClock } from '../runtime/clock.ts'
import type { Program } from './invoke.ts'
import { ownOption, type Parsed } from './parse.ts'
import { chooseStore } from './store-option.ts'
import { type Style, type Terminal, terminalOf } from './terminal.ts'

export const doctor: Program = {
  options: [
    ownOption('deep', 'flag', 'also look for damage in the file (SQLite): reads all of it'),
    ownOption('strict', 'flag', 'answer 1 for warnings, too'),
  ],
  places: [],
  examples: ['redress doctor', 'redress doctor --store "$DATABASE_URL" --strict --json'],
  run: (_command, parsed) => run(parsed),
}

async function run({ values }: Parsed): Promise<number> {
  const { location } = chooseStore(values)
  const diagnosis = await examine(location, { isDeep: values.deep === true, clock: systemClock })
  const terminal = terminalOf(process.stdout, process.env, Date.now())
  process.stdout.write(values.json === true ? `${JSON.stringify(diagnosis, null, 2)}\n` : inWords(diagnosis, terminal))
  const isFine = values.strict === true ? diagnosis.findings.every(({ level }) => level === 'ok') : diagnosis.isWell
  return isFine ? 0 : 1
}

const STYLES: Readonly<Record<Finding['level'], Style>> = { ok: 'good', warning: 'waiting', wrong: 'bad' }

function inWords({ store, findings }: Diagnosis, terminal: Terminal): string {
  const width = Math.max(...findings.map(({ check }) => check.length))
  const lines = findings.map(({ check, level, says, fix }) => {
    const mark = terminal.paint(STYLES[level], level.padEnd('warning'.length))
    const how = fix === null ? '' : terminal.paint('quiet', ` -> ${oneLine(fix)}`)
    return `${mark}  ${check.padEnd(width)}  ${oneLine(says)}${how}`
  })
  return `${[`${store}`, '', ...lines, '', verdict(findings, terminal)].join('\n')}\n`
}

function verdict(findings: readonly Finding[], terminal: Terminal): string {
  const [bad, doubtful] = ['wrong', 'warning'].map((level) => findings.filter((one) => one.level === level).length)
  if (bad === 0 && doubtful === 0) return terminal.paint('good', 'All is well.')
  return `${bad} wrong, ${doubtful} to be looked at.`
}
