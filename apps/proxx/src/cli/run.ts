import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { RedressError } from 'redress'
import type { CommandCall } from 'redress/http'
import type { ProxxJob } from '../view.ts'
import { watchFolder } from '../watch/watch.ts'
import { DEFAULT_NAMING } from './commands.ts'
import { localTarget, remoteTarget, type Target } from './target.ts'

interface Opened {
  target: Target
  /** The options that lead another command to the same target. */
  flags: string
}

/** Works on the store with proxx installed on it, or through a server that runs proxx. */
async function at(call: CommandCall, work: (opened: Opened) => Promise<void>, needsStore = true): Promise<void> {
  const opened = await call.open({ mayBeMissing: !needsStore })
  try {
    const target =
      opened.kind === 'server'
        ? remoteTarget(opened.ask)
        : await localTarget({ app: opened.app, actor: opened.actor, isVisit: needsStore, ...opened.installContext })
    await work({ target, flags: opened.flags })
  } finally {
    await opened.stop()
  }
}

/** Needs no store, because it changes nothing. */
export async function validate(call: CommandCall): Promise<void> {
  await at(
    call,
    async ({ target }) => {
      const report = await target.validate(readSpecFile(call, firstOf(call)))
      const { problems, outputs } = report
      if (call.isJson) call.printJson({ valid: problems.length === 0, ...report })
      else if (problems.length === 0) {
        call.print(`The spec is valid. It makes:\n${outputs.map((name) => `  ${name}\n`).join('')}`)
      }
      if (problems.length === 0) return
      throw new RedressError('INPUT_INVALID', 'A job of this spec would fail before anything is run.', {
        problems: problems.map(problemLine),
      })
    },
    false,
  )
}

export async function submit(call: CommandCall): Promise<void> {
  await at(call, async (opened) => {
    tellMade(call, await opened.target.submit(readSpecFile(call, firstOf(call))), opened)
  })
}

export async function retry(call: CommandCall): Promise<void> {
  const reason = reasonOf(call)
  await at(call, async (opened) => {
    const spec = call.text('spec')
    const edited = spec === undefined ? {} : { spec: readSpecFile(call, spec) }
    const act = { reason, again: call.flag('again'), ...edited }
    tellMade(call, await opened.target.retry(firstOf(call), act), opened)
  })
}

export async function markFailed(call: CommandCall): Promise<void> {
  const reason = reasonOf(call)
  await at(call, async ({ target, flags }) => {
    const job = await target.markFailed(firstOf(call), { reason })
    if (call.isJson) return call.printJson(job)
    call.print(`Job ${job.id} is ${job.status}.\n`)
    call.note(`\`${call.commandName} proxx retry ${job.id} --reason 'say why'${flags}\` makes a new one of it.`)
  })
}

export async function orphans(call: CommandCall): Promise<void> {
  await at(call, async ({ target, flags }) => {
    const jobs = await orphansOf(call, target)
    if (call.isJson) return call.printJson(jobs)
    if (jobs.length === 0) return call.note('There are no orphans.')
    call.printTable(jobs, [
      { title: 'JOB', of: ({ id }) => id },
      { title: 'WORKER', of: ({ worker }) => worker },
      { title: 'STARTED', of: ({ startedAt }) => startedAt },
      { title: 'SILENT SINCE', of: ({ orphanedAt }) => orphanedAt },
    ])
    const command = `${call.commandName} proxx mark-failed JOB --reason 'say why'${flags}`
    call.note(`Nobody else takes them. Look, then say \`${command}\`.`)
  })
}

const LOOK_AGAIN_MS = 500

async function orphansOf(call: CommandCall, target: Target): Promise<ProxxJob[]> {
  const timeoutMs = call.durationMs('timeout')
  if (!call.flag('wait') && timeoutMs !== undefined) throw call.usage('--timeout is for --wait.')
  const waitMs = call.flag('wait') ? (timeoutMs ?? Number.POSITIVE_INFINITY) : 0
  const startedMs = performance.now()
  for (;;) {
    const jobs = await target.orphans()
    const leftMs = startedMs + waitMs - performance.now()
    if (jobs.length > 0 || waitMs === 0) return jobs
    if (leftMs <= 0) {
      throw new RedressError('WAIT_TIMEOUT', `No job became an orphan within ${call.text('timeout')}.`, {
        action: 'Wait again, or look later.',
      })
    }
    await setTimeout(Math.min(LOOK_AGAIN_MS, leftMs))
  }
}

export async function verify(call: CommandCall): Promise<void> {
  await at(call, async ({ target }) => {
    const id = firstOf(call)
    const verdicts = await target.verify(id)
    if (call.isJson) call.printJson(verdicts)
    else {
      for (const { isGood, path, check, message } of verdicts) {
        call.print(`${oneLine(`${path}: ${isGood ? 'good' : `BAD (${check})`}: ${message}`)}\n`)
      }
    }
    if (verdicts.every(({ isGood }) => isGood)) return
    throw new RedressError('ARTIFACT_CORRUPT', `Not all outputs of job ${id} are as they were delivered.`, {
      action: 'Do not use those that are bad; submit a new job for them.',
      jobId: id,
    })
  })
}

export async function watch(call: CommandCall): Promise<void> {
  const [profile, output, naming] = [call.text('profile'), call.text('output'), call.text('naming')]
  if ((profile === undefined) !== (output === undefined)) {
    throw call.usage('--profile and --output go together: media need both.')
  }
  if (naming !== undefined && profile === undefined) throw call.usage('--naming is for media: add --profile.')
  const media =
    profile === undefined || output === undefined
      ? null
      : { profile, output: resolve(output), naming: naming ?? DEFAULT_NAMING }
  const settleMs = call.durationMs('settle') ?? 10_000
  const stopping = new AbortController()
  await at(call, async ({ target }) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stopping.abort())
    await watchFolder({
      target,
      folder: firstOf(call),
      media,
      settleMs,
      needsMarker: call.flag('done'),
      signal: stopping.signal,
      say: (event) => (call.isJson ? call.printJsonLine(event) : call.print(`${oneLine(event.message)}\n`)),
    })
  })
}

/** A spec from a file, or from standard input for `-`. Text that is not JSON makes no job: it is wrong usage. */
export function readSpecFile(call: Pick<CommandCall, 'usage'>, path: string): unknown {
  let text: string
  try {
    text = readFileSync(path === '-' ? 0 : path, 'utf8')
  } catch (error) {
    throw new RedressError('USAGE', `Cannot read ${path}.`, { cause: error, action: 'Check the path.' })
  }
  try {
    // Some editors write a byte order mark.
    return JSON.parse(text.replace(/^\uFEFF/, ''))
  } catch (error) {
    throw call.usage(`${path} is not JSON: ${error instanceof Error ? error.message : String(error)}.`)
  }
}

/** A job that failed before its dispatch exists, and the command has still failed. */
function tellMade(call: CommandCall, job: ProxxJob, { flags }: Opened): void {
  if (call.isJson) call.printJson(job)
  else call.print(`Job ${job.id} is ${job.status}.\n`)
  if (job.status !== 'failed') {
    if (!call.isJson) call.note(`\`${call.commandName} jobs wait ${job.id}${flags}\` waits for its end.`)
    return
  }
  const { code, message, problems } = job.error ?? { code: 'UNKNOWN', message: '', problems: [] }
  const again = `${call.commandName} proxx retry ${job.id} --spec FILE --reason 'say why'${flags}`
  throw new RedressError('JOB_FAILED', `Job ${job.id} failed before anything was run: ${code}: ${message}`, {
    action: `Correct what is wrong, then \`${again}\`, or submit anew.`,
    jobId: job.id,
    problems: problems.map((problem) => (typeof problem === 'string' ? problem : problemLine(problem))),
  })
}

function problemLine(problem: unknown): string {
  const { code, path, message } = problem as { code?: string; path?: string; message?: string }
  return [code, path, message].filter(Boolean).join(': ')
}

function reasonOf(call: CommandCall): string {
  const reason = call.text('reason')
  if (reason !== undefined) return reason
  throw new RedressError('REASON_REQUIRED', 'A reason is required.', {
    action: `Add --reason 'why you do this'. It is recorded in the history.`,
  })
}

const firstOf = (call: CommandCall): string => call.arguments[0] as string

const oneLine = (text: string): string => text.replaceAll(/\s+/g, ' ').trim()
