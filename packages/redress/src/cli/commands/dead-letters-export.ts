import { once } from 'node:events'
import { createWriteStream, existsSync } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { RedressError } from '../../core/errors.ts'
import { EXPORT_FORMATS, type ExportFormat, exportedLetters, OF_A_PAGE } from '../../operations/dead-letters/export.ts'
import { OPERATIONS } from '../../operations/table.ts'
import type { Command } from '../language/commands.ts'
import { ownOption, type Parsed, SERVER_OPTIONS, usage } from '../language/parse.ts'
import { optionsOf } from '../operation-program.ts'
import type { Program } from '../programs.ts'
import { openTarget } from '../target/target.ts'

const FILTERS = optionsOf(OPERATIONS['dead-letters.list'].input).filter(({ field }) => !OF_A_PAGE.includes(field))

export const letterExport: Program = {
  options: [
    ...FILTERS,
    ownOption('format', 'choice', 'JSON lines, or messages of proto/dead_letter_task.proto', {
      choices: EXPORT_FORMATS,
      fallback: 'jsonl',
    }),
    ownOption('out FILE', 'text', 'file to write; an existing file is not replaced', {
      fallback: 'standard output',
    }),
    ...SERVER_OPTIONS,
  ],
  places: [],
  examples: [
    'redress dead-letters export --code DOWNLOAD_TIMEOUT --since 2h > letters.jsonl',
    'redress dead-letters export --format protobuf --out letters.pb',
  ],
  run: (command, parsed) => run(command, parsed),
}

async function run(command: Command, { values }: Parsed): Promise<void> {
  const format = (values.format ?? 'jsonl') as ExportFormat
  const out = typeof values.out === 'string' ? values.out : null
  if (out === null && format === 'protobuf' && process.stdout.isTTY) {
    throw usage(command, 'Protobuf cannot be printed to a terminal: name a file with --out.')
  }
  const filter = Object.fromEntries(
    Object.entries(values).filter(([name]) => FILTERS.some(({ field }) => field === name)),
  )
  const target = await openTarget(values)
  let letters = 0
  async function* counted(): AsyncGenerator<Uint8Array> {
    for await (const letter of exportedLetters((page) => target.perform('dead-letters.list', page), filter, format)) {
      letters++
      yield letter
    }
  }
  try {
    if (out === null) await toStandardOutput(counted())
    else await toFile(counted(), out)
  } finally {
    await target.stop()
  }
  if (out === null) return
  const did = `Exported ${letters} dead ${letters === 1 ? 'letter' : 'letters'} to ${out}.`
  process.stdout.write(
    values.json === true ? `${JSON.stringify({ isDone: true, did, letters, file: out })}\n` : `${did}\n`,
  )
}

async function toStandardOutput(chunks: AsyncIterable<Uint8Array>): Promise<void> {
  for await (const chunk of chunks) if (!process.stdout.write(chunk)) await once(process.stdout, 'drain')
}

/** Under another name until it is whole: half an export must not be taken for one. */
async function toFile(chunks: AsyncIterable<Uint8Array>, path: string): Promise<void> {
  if (existsSync(path)) {
    throw new RedressError('OPTION_INVALID', `${path} already exists.`, {
      action: 'Choose another file name for --out.',
    })
  }
  const partial = `${path}.partial`
  try {
    await pipeline(
      Readable.from(chunks, { objectMode: false }),
      createWriteStream(partial, { flush: true, mode: 0o600 }),
    )
    await rename(partial, path)
  } catch (error) {
    await rm(partial, { force: true })
    if (error instanceof RedressError) throw error
    const why = (error as NodeJS.ErrnoException).code ?? 'it was refused'
    const action = 'Check that the folder of --out exists, is writable and has free space. Nothing was written.'
    throw new RedressError('OUTPUT_FAILED', `${path} cannot be written: ${why}.`, { action, cause: error })
  }
}
