import { migrateStore } from '../../app/store/doctor.ts'
import { placeText } from '../../app/store/open-store.ts'
import { systemClock } from '../../runtime/clock.ts'
import { ownOption, type Parsed } from '../language/parse.ts'
import type { Program } from '../programs.ts'
import { chooseStore } from '../target/store-option.ts'

export const migrate: Program = {
  options: [ownOption('dry-run', 'flag', 'only show the current and the new version')],
  places: [],
  examples: ['redress migrate --dry-run', 'redress migrate --store "$DATABASE_URL"'],
  run: (_command, parsed) => run(parsed),
}

async function run({ values }: Parsed): Promise<void> {
  const { location } = chooseStore(values)
  const isDryRun = values['dry-run'] === true
  const { from, to } = await migrateStore(location, { isDryRun, clock: systemClock })
  const store = placeText(location)
  const isDone = !isDryRun && from < to
  if (values.json === true) process.stdout.write(`${JSON.stringify({ isDone, store, from, to }, null, 2)}\n`)
  else process.stdout.write(`${inWords({ store, from, to, isDryRun })}\n`)
}

function inWords({
  store,
  from,
  to,
  isDryRun,
}: {
  store: string
  from: number
  to: number
  isDryRun: boolean
}): string {
  if (from >= to) return `Nothing to do: ${store} already has version ${from}.`
  const what = from === 0 ? `the tables of version ${to}` : `version ${from} -> ${to}`
  return isDryRun ? `Nothing was done. This brings ${store} to ${what}.` : `${store}: ${what}.`
}
