import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { MediaPrograms } from '../../apps/shared/src/media/programs.ts'

/** One call of a program, as proxx made it. */
export interface Call {
  program: string
  arguments: readonly string[]
  beganMs: number
  endedMs: number
}

/**
 * Programs that note how they were called, and when they began and ended, before they do what they are asked: so that
 * the bare loop runs exactly these. The shell around them takes some milliseconds, which count as Redress's own.
 */
export class Recorder {
  readonly #folder: string
  readonly env: Readonly<Record<string, string>>

  constructor(folder: string, { ffmpeg, ffprobe }: MediaPrograms) {
    this.#folder = join(folder, 'calls')
    mkdirSync(this.#folder)
    const script = (name: string, program: string) => {
      const path = join(folder, name)
      const note = `printf '%s\\0' '${program}' "$began" "$EPOCHREALTIME" "$@" > '${this.#folder}/'"$began-$$"`
      writeFileSync(path, `#!/bin/bash\nbegan=$EPOCHREALTIME\n'${program}' "$@"\ncode=$?\n${note}\nexit $code\n`)
      chmodSync(path, 0o755)
      return path
    }
    this.env = { FFMPEG_PATH: script('ffmpeg', ffmpeg.path), FFPROBE_PATH: script('ffprobe', ffprobe.path) }
  }

  /** In the order in which they began; those that only ask for a version are left out. */
  calls(): Call[] {
    return readdirSync(this.#folder)
      .toSorted()
      .map((name) => {
        const [program = '', began, ended, ...args] = readFileSync(join(this.#folder, name), 'utf8').split('\0')
        return { program, arguments: args.slice(0, -1), beganMs: Number(began) * 1000, endedMs: Number(ended) * 1000 }
      })
      .filter((call) => call.arguments[0] !== '-version')
  }
}

export const isEncode = ({ arguments: args }: Call): boolean => args.at(-1)?.endsWith('.partial') ?? false

/** Whatever names a part names this instead. */
export function redirected(call: Call, output: string): Call {
  const args = call.arguments.map((part) =>
    part.endsWith('.partial') ? (part.startsWith('file:') ? `file:${output}` : output) : part,
  )
  return { ...call, arguments: args }
}

/** Runs it as a loop in a shell would: nothing is kept but what it says on its standard output. */
export async function runBare({ program, arguments: args }: Call): Promise<string> {
  const child = spawn(program, args, {
    env: { ...process.env, GCONV_PATH: '/nonexistent' },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const [said, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')])
  if (code !== 0) throw new Error(`${program} ${args.join(' ')} ended with ${code}`)
  return said
}

/** The hash of each stream of a file, asked for in the plainest way. */
export async function streamsOf(ffmpeg: string, path: string): Promise<string[]> {
  const args = ['-v', 'error', '-i', path, '-map', '0:v:0', '-map', '0:a?', '-c', 'copy']
  const said = await runBare({
    program: ffmpeg,
    arguments: [...args, '-f', 'streamhash', '-hash', 'sha256', '-'],
    beganMs: 0,
    endedMs: 0,
  })
  return said.trim().split('\n')
}
