import { type Restored, restoreStore } from '../../app/store/backup-store.ts'
import { placeText } from '../../app/store/open-store.ts'
import { systemClock } from '../../runtime/clock.ts'
import type { Program } from '../invoke.ts'
import { commandName } from '../language/command-name.ts'
import { ownOption, type Parsed } from '../language/parse.ts'
import { chooseStore } from '../target/store-option.ts'
import { exitOnSignals } from '../terminal/clean-exit.ts'
import { currentUser } from '../terminal/current-user.ts'
import { progressOn } from '../terminal/progress.ts'
import { type Terminal, terminalOf } from '../terminal/terminal.ts'
import { sizeText, tableOf } from './backup.ts'

export const restore: Program = {
  options: [
    ownOption('force', 'flag', 'though there is a store already: that one is moved aside, with the time in its name'),
    ownOption('pause', 'flag', 'pause every queue, so that nothing is begun before you have looked'),
  ],
  places: [{ name: 'file', description: 'a file made by `redress backup`' }],
  examples: ['redress restore /backups/redress-2026-11-16.db --data /var/lib/redress --pause'],
  run: (_command, parsed) => run(parsed),
}

async function run({ values, positionals: [file = ''] }: Parsed): Promise<void> {
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
      process.stdout.write(inWords(restored, { file, store, isPaused, flags }, terminal))
    }
  } catch (error) {
    progress.clear()
    throw error
  }
}

function inWords(
  { tables, bytes, version, aside, credentialsDropped }: Restored,
  { file, store, isPaused, flags }: { file: string; store: string; isPaused: boolean; flags: string },
  terminal: Terminal,
): string {
  const next = isPaused
    ? `Every queue is paused. Look, then let them go on: ${commandName()} queues resume NAME --reason 'say why'${flags}`
    : 'What was done since the backup is not known to it: those jobs are done again when a worker starts.'
  return [
    tableOf(tables, terminal),
    `Restored ${store} from ${file}: ${sizeText(bytes)}, checked, version ${version}.`,
    ...(aside === null ? [] : [`The store that was there is now ${aside}.`]),
    `Tokens are valid as they were; ${credentialsDropped} sessions and sign-in links are not.`,
    next,
    '',
  ].join('\n')
}
