import { resolve } from 'node:path'
import { durationMs } from '../core/duration.ts'
import { oneLine } from '../core/printable.ts'
import type { Program } from './invoke.ts'
import { ownOption, usage } from './parse.ts'
import { openPlace, PLACE_OPTIONS, type ProxxPlace, proxxModule } from './proxx-place.ts'

interface WatchModule {
  watchFolder(options: {
    place: ProxxPlace
    folder: string
    media: { profile: string; output: string; naming: string } | null
    settleMs: number
    needsMarker: boolean
    signal: AbortSignal
    say(event: { message: string }): void
  }): Promise<void>
}

const NAMING = '{source_name}_{index}'

export const watch: Program = {
  options: [
    ownOption('profile NAME', 'text', 'make jobs of media files and folders of them, too, with this profile'),
    ownOption('output DIR', 'text', 'where the outputs of media go; needed with --profile'),
    ownOption('naming TEXT', 'text', 'names of the outputs of media', { fallback: NAMING }),
    ownOption('settle TIME', 'text', 'take what has not changed for this long', { fallback: '10s' }),
    ownOption('done', 'flag', 'take what has a file of its name with .done behind it, and nothing before'),
    ...PLACE_OPTIONS,
  ],
  places: [{ name: 'folder', description: 'where pending, taken, running, completed and failed are, or are made' }],
  examples: [
    'redress proxx watch /ingest',
    'redress proxx watch /ingest --profile proxy_h264_low --output /proxies --settle 30s',
  ],
  async run(command, parsed) {
    const { values, positionals } = parsed
    const { profile, output, naming, settle, done } = values
    if ((profile === undefined) !== (output === undefined)) {
      throw usage(command, '--profile and --output go together: media need both.')
    }
    if (naming !== undefined && profile === undefined) throw usage(command, '--naming is for media: add --profile.')
    const media =
      typeof profile === 'string' && typeof output === 'string'
        ? { profile, output: resolve(output), naming: typeof naming === 'string' ? naming : NAMING }
        : null
    const settleMs = durationMs(typeof settle === 'string' ? settle : '10s', '--settle')
    const opened = await openPlace(command, parsed)
    const stopping = new AbortController()
    const stop = () => stopping.abort()
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, stop)
    try {
      const { watchFolder } = await proxxModule<WatchModule>()
      await watchFolder({
        place: opened.place,
        folder: positionals[0] as string,
        media,
        settleMs,
        needsMarker: done === true,
        signal: stopping.signal,
        say: (event) =>
          void process.stdout.write(
            values.json === true ? `${JSON.stringify(event)}\n` : `${oneLine(event.message)}\n`,
          ),
      })
    } finally {
      await opened.stop()
    }
  },
}
