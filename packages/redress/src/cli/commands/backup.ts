import { type Backup, backupStore } from '../../app/store/backup-store.ts'
import { placeText } from '../../app/store/open-store.ts'
import { systemClock } from '../../runtime/clock.ts'
import type { Program } from '../invoke.ts'
import { ownOption, type Parsed } from '../language/parse.ts'
import { chooseStore, refuseMissingStore } from '../target/store-option.ts'
import { exitOnSignals } from '../terminal/clean-exit.ts'
import { columns } from '../terminal/columns.ts'
import { progressOn } from '../terminal/progress.ts'
import { type Terminal, terminalOf } from '../terminal/terminal.ts'

export const backup: Program = {
  options: [ownOption('force', 'flag', 'replace a file of that name')],
  places: [{ name: 'file', description: 'the file to make; its folder must be there' }],
  examples: ['redress backup /backups/redress-$(date +%F).db', 'redress backup jobs.db --store "$DATABASE_URL"'],
  run: (_command, parsed) => run(parsed),
}

async function run({ values, positionals: [file = ''] }: Parsed): Promise<void> {
  const { location } = chooseStore(values)
  refuseMissingStore(location)
  exitOnSignals()
  const progress = progressOn(process.stderr, process.env)
  try {
    const made = await backupStore({
      from: location,
      file,
      mayReplace: values.force === true,
      clock: systemClock,
      onProgress: (what, done, total) => progress.show({ what, done, total }),
    })
    progress.clear()
    const store = placeText(location)
    if (values.json === true) process.stdout.write(`${JSON.stringify({ isDone: true, store, ...made }, null, 2)}\n`)
    else process.stdout.write(inWords(made, store, terminalOf(process.stdout, process.env, Date.now())))
  } catch (error) {
    progress.clear()
    throw error
  }
}

function inWords(made: Backup, store: string, terminal: Terminal): string {
  return [
    tableOf(made.tables, terminal),
    `Backed up ${store} to ${made.file}: ${sizeText(made.bytes)}, checked, version ${made.version}.`,
    'Not in it: artifacts, and the log that write-ahead policies keep beside the store.',
    '',
  ].join('\n')
}

export function tableOf(tables: Backup['tables'], terminal: Terminal): string {
  return columns(
    tables.filter(({ rows }) => rows > 0),
    [
      { title: 'TABLE', of: ({ table }) => table },
      { title: 'ROWS', of: ({ rows }) => rows, isNumber: true },
    ],
    terminal,
  )
}

export function sizeText(bytes: number): string {
  const units = ['bytes', 'KB', 'MB', 'GB', 'TB']
  const power = bytes < 1000 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(bytes) / 3))
  return `${(bytes / 1000 ** power).toFixed(power === 0 ? 0 : 1)} ${units[power]}`
}
