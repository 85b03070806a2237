import { type Backup, backupStore, type Restored, restoreStore } from '../../app/store/copy-store.ts'
import { placeText } from '../../app/store/open-store.ts'
import { systemClock } from '../../runtime/clock.ts'
import { commandName } from '../language/commands.ts'
import { ownOption, type Parsed } from '../language/parse.ts'
import type { Program } from '../programs.ts'
import { chooseStore, refuseMissingStore } from '../target/store-option.ts'
import { columns } from '../terminal/columns.ts'
import { exitOnSignals } from '../terminal/exit.ts'
import { progressOn } from '../terminal/progress.ts'
import { currentUser, type Terminal, terminalOf } from '../terminal/terminal.ts'

export const backup: Program = {
  options: [ownOption('force', 'flag', 'replace an existing file')],
  places: [{ name: 'file', description: 'file to create; its folder must exist' }],
  examples: ['redress backup /backups/redress-$(date +%F).db', 'redress backup jobs.db --store "$DATABASE_URL"'],
  run: (_command, parsed) => runBackup(parsed),
}

async function runBackup({ values, positionals: [file = ''] }: Parsed): Promise<void> {
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
    else process.stdout.write(backupText(made, store, terminalOf(process.stdout, process.env, Date.now())))
  } catch (error) {
    progress.clear()
    throw error
  }
}

function backupText(made: Backup, store: string, terminal: Terminal): string {
  return [
    tableOf(made.tables, terminal),
    `Backed up ${store} to ${made.file}: ${sizeText(made.bytes)}, checked, version ${made.version}.`,
    'Not included: artifacts, and the write-ahead log beside the store.',
    '',
  ].join('\n')
}

export const restore: Program = {
  options: [
    ownOption('force', 'flag', 'replace an existing store: it is renamed with the time in its name'),
    ownOption('pause', 'flag', 'pause every queue, so that no job starts before you resume it'),
  ],
  places: [{ name: 'file', description: 'a file made by `redress backup`' }],
  examples: ['redress restore /backups/redress-2026-11-16.db --data /var/lib/redress --pause'],
  run: (_command, parsed) => runRestore(parsed),
}

async function runRestore({ values, positionals: [file = ''] }: Parsed): Promise<void> {
  const { location, flags } = chooseStore(values)
  const isPaused = values.pause === true
  exitOnSignals()
  const progress = progressOn(process.stderr, process.env)
  try {
    const restored = await restoreStore({
      file,
      to: location,
      isForced: values.force === true,
      isPaused,
      by: { actor: currentUser() || 'unknown', reason: 'the store was restored from a backup' },
      clock: systemClock,
      onPages: (done, total) => progress.show({ what: 'copying', done, total }),
    })
    progress.clear()
    const store = placeText(location)
    if (values.json === true)
      process.stdout.write(`${JSON.stringify({ isDone: true, store, isPaused, ...restored }, null, 2)}\n`)
    else {
      const terminal = terminalOf(process.stdout, process.env, Date.now())
      process.stdout.write(restoreText(restored, { file, store, isPaused, flags }, terminal))
    }
  } catch (error) {
    progress.clear()
    throw error
  }
}

function restoreText(
  { tables, bytes, version, aside, credentialsDropped }: Restored,
  { file, store, isPaused, flags }: { file: string; store: string; isPaused: boolean; flags: string },
  terminal: Terminal,
): string {
  const next = isPaused
    ? `Every queue is paused. Resume each when you are ready: ${commandName()} queues resume NAME --reason 'say why'${flags}`
    : 'Work that was done after the backup is not in it: those jobs run again when a worker starts.'
  return [
    tableOf(tables, terminal),
    `Restored ${store} from ${file}: ${sizeText(bytes)}, checked, version ${version}.`,
    ...(aside === null ? [] : [`The previous store is now ${aside}.`]),
    `Tokens stay valid; ${credentialsDropped} sessions and sign-in links were removed.`,
    next,
    '',
  ].join('\n')
}

function tableOf(tables: Backup['tables'], terminal: Terminal): string {
  return columns(
    tables.filter(({ rows }) => rows > 0),
    [
      { title: 'TABLE', of: ({ table }) => table },
      { title: 'ROWS', of: ({ rows }) => rows, isNumber: true },
    ],
    terminal,
  )
}

function sizeText(bytes: number): string {
  const units = ['bytes', 'KB', 'MB', 'GB', 'TB']
  const power = bytes < 1000 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(bytes) / 3))
  return `${(bytes / 1000 ** power).toFixed(power === 0 ? 0 : 1)} ${units[power]}`
}
