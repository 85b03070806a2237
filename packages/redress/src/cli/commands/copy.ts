import { type Copied, copyStore } from '../../app/store/copy-store.ts'
import { placeText } from '../../app/store/open-store.ts'
import { RedressError } from '../../core/errors.ts'
import { systemClock } from '../../runtime/clock.ts'
import { copyAppRows } from '../apps/apps.ts'
import { ownOption, type Parsed } from '../language/parse.ts'
import type { Program } from '../programs.ts'
import { columns } from '../terminal/columns.ts'
import { progressOn } from '../terminal/progress.ts'
import { type Terminal, terminalOf } from '../terminal/terminal.ts'

export const copy: Program = {
  options: [
    ownOption('from STORE', 'text', 'store to copy, such as sqlite:.redress/redress.db; it is only read'),
    ownOption('to STORE', 'text', 'empty store to fill, such as postgres://user@host/name'),
    ownOption('dry-run', 'flag', 'only show what would be copied, and what prevents it'),
    ownOption(
      'despite-workers',
      'flag',
      'copy although workers use the source: changes during the copy are missing in it, and jobs may run twice',
    ),
  ],
  places: [],
  examples: [
    'redress copy --from sqlite:.redress/redress.db --to postgres://redress@db.example/redress --dry-run',
    'redress copy --from sqlite:.redress/redress.db --to "$DATABASE_URL"',
  ],
  run: (_command, parsed) => run(parsed),
}

async function run({ values }: Parsed): Promise<number> {
  const { from, to } = values
  if (values.data !== undefined || values.store !== undefined) {
    throw new RedressError('USAGE', 'redress copy needs two stores: --data and --store cannot be used.', {
      action: 'Give --from and --to instead.',
    })
  }
  if (typeof from !== 'string' || typeof to !== 'string') {
    throw new RedressError('USAGE', `--${typeof from === 'string' ? 'to' : 'from'} is missing.`, {
      action: 'Usage: redress copy --from STORE --to STORE.',
    })
  }
  const isDryRun = values['dry-run'] === true
  const progress = progressOn(process.stderr, process.env)
  try {
    const copied = await copyStore({
      from,
      to,
      isDryRun,
      isInUseAllowed: values['despite-workers'] === true,
      clock: systemClock,
      onProgress: ({ table, rows, total }) =>
        progress.show({ what: `${table}: ${rows} of ${total}`, done: rows, total }),
    })
    if (copied.isWhole) await copyRowsOfApps(copied, from, isDryRun ? null : to)
    progress.clear()
    const terminal = terminalOf(process.stdout, process.env, Date.now())
    if (values.json === true)
      process.stdout.write(`${JSON.stringify({ isDone: !isDryRun && copied.isWhole, ...copied }, null, 2)}\n`)
    else process.stdout.write(inWords(copied, { from, to, isDryRun }, terminal))
    return copied.isWhole ? 0 : 1
  } catch (error) {
    progress.clear()
    throw error
  }
}

/** Jobs without the campaigns that they were made for would be a store that looks whole and is not. */
async function copyRowsOfApps(copied: Copied, from: string, to: string | null): Promise<void> {
  try {
    copied.tables.push(...(await copyAppRows(from, to)))
  } catch (cause) {
    if (to === null) throw cause
    const because = cause instanceof Error ? cause.message : String(cause)
    throw new RedressError('STORE_FAILED', `The jobs were copied, but not the rows of apps: ${because}`, {
      action: 'Delete the new store, fix the cause, and copy again. The source is unchanged.',
      cause,
    })
  }
}

function inWords(
  copied: Copied,
  { from, to, isDryRun }: { from: string; to: string; isDryRun: boolean },
  terminal: Terminal,
): string {
  const isSame = ({ source, target }: Copied['tables'][number]) => target === null || source === target
  const table = columns(
    copied.tables,
    [
      { title: 'TABLE', of: (row) => row.table },
      { title: 'SOURCE', of: (row) => row.source, isNumber: true },
      ...(isDryRun ? [] : [{ title: 'TARGET', of: (row: Copied['tables'][number]) => row.target, isNumber: true }]),
      { title: '', of: (row) => (isSame(row) ? '' : 'differs'), style: () => 'bad' as const },
    ],
    terminal,
  )
  const rows = copied.tables.reduce((sum, { source }) => sum + source, 0)
  return `${[table, ...verdict(copied, rows, { from, to, isDryRun }), ...cautions(copied)].join('\n')}\n`
}

function verdict(
  copied: Copied,
  rows: number,
  { from, to, isDryRun }: { from: string; to: string; isDryRun: boolean },
): string[] {
  const [source, target] = [placeText(from), placeText(to)]
  if (isDryRun) return [`Nothing was done. This copies ${rows} rows from ${source} to ${target}, which is empty.`]
  if (!copied.isWhole) return [`Nothing was copied: the counts differ, so ${target} was left empty.`]
  return [
    `Copied ${rows} rows to ${target}. ${source} is unchanged.`,
    'Point your programs to the new store (REDRESS_STORE or DATABASE_URL), and archive the old one.',
  ]
}

function cautions({ textsChanged, eventsMissed, workers }: Copied): string[] {
  return [
    ...(textsChanged > 0
      ? [`${textsChanged} texts contained a NUL character, which PostgreSQL cannot store; it was replaced by U+FFFD.`]
      : []),
    ...(workers.length > 0 ? [`Workers were running on the source: ${workers.join(', ')}.`] : []),
    ...(eventsMissed > 0 ? [`${eventsMissed} events that the source wrote during the copy are missing in it.`] : []),
  ]
}
