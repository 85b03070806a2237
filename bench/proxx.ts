/**
 * Proxx on clips of every kind, and what it takes beside the bare ffmpeg. Takes about half an hour on two cores:
 * node --conditions=redress-source bench/proxx.ts [--clips 100] [--runs 3] [--camera-clips 2] [--seconds 10] [--rounds 5]
 *   [--profiles proxy_h264_low,proxy_dnxhr_lb] [--dir FOLDER]
 * First each of the generated clips goes through every profile in each run, on a fresh store, in another order, with
 * other workers: all must be complete, hold what was put into them, and have the same fingerprints in all runs and from
 * a bare loop. Then clips as long as real ones are timed beside the bare loop, by all profiles or those named. No runs,
 * or no rounds, leave a part out.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { findPrograms } from '../apps/shared/src/media/programs.ts'
import { measureOverhead } from './proxx/overhead.ts'
import { measureStability } from './proxx/stable.ts'

const { values } = parseArgs({
  options: {
    clips: { type: 'string', default: '100' },
    runs: { type: 'string', default: '3' },
    'camera-clips': { type: 'string', default: '2' },
    seconds: { type: 'string', default: '10' },
    profiles: { type: 'string' },
    rounds: { type: 'string', default: '5' },
    dir: { type: 'string', default: tmpdir() },
  },
})

const programs = await findPrograms()
const folder = mkdtempSync(join(values.dir, 'redress-proxx-bench-'))
console.log(`ffmpeg ${programs.ffmpeg.version}, Node ${process.version}, ${cpus().length} cores`)
try {
  const [clips, runs, rounds] = [Number(values.clips), Number(values.runs), Number(values.rounds)]
  if (runs > 0) {
    const problems = await measureStability(folder, programs, { clips, runs })
    for (const problem of problems) console.log(`  ${problem}`)
    console.log(`${clips} clips, ${runs} runs: ${problems.length} problems`)
    if (problems.length > 0) process.exitCode = 1
  }
  if (rounds > 0) {
    const profiles = values.profiles?.split(',') ?? null
    const options = { clips: Number(values['camera-clips']), seconds: Number(values.seconds), rounds, profiles }
    await measureOverhead(folder, programs, options)
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
