import { setTimeout } from 'node:timers/promises'
import { durationMs, formatMs } from '../core/duration.ts'
import { RedressError } from '../core/errors.ts'
import { oneLine, printable } from '../core/printable.ts'
import { columns } from './columns.ts'
import { commandName } from './command-name.ts'
import type { Command } from './commands.ts'
import type { Program } from './invoke.ts'
import { ownOption, type Parsed, SERVER_OPTIONS, usage } from './parse.ts'
import {
  type OpenedPlace,
  openPlace,
  PLACE_OPTIONS,
  type ProxxJob,
  type ProxxPlace,
  readSpecFile,
} from './proxx-place.ts'
import { terminalOf } from './terminal.ts'

const FILE_PLACE = { name: 'file', description: 'the spec: a file with JSON, or - for standard input' }
const ID_PLACE = { name: 'id', description: 'id of the job' }
const REASON_OPTION = ownOption('reason TEXT', 'text', 'why: kept in the history')

export const validate: Program = {
  options: SERVER_OPTIONS,
  places: [FILE_PLACE],
  examples: ['redress proxx validate card.json'],
  run: (command, parsed) =>
    at(
      command,
      parsed,
      async ({ place }) => {
        const report = await place.validate(readSpecFile(command, parsed.positionals[0] as string))
        const { problems, outputs } = report
        if (parsed.values.json === true) printJson({ valid: problems.length === 0, ...report })
        else if (problems.length === 0)
          print(`The spec is valid. It makes:\n${outputs.map((name) => `  ${name}\n`).join('')}`)
        if (problems.length === 0) return
        const told = problems.map(problemLine)
        throw new RedressError('INPUT_INVALID', 'A job of this spec would fail before anything is run.', {
          problems: told,
        })
      },
      false,
    ),
}

export const submit: Program = {
  options: PLACE_OPTIONS,
  places: [FILE_PLACE],
  examples: ['redress proxx submit card.json', 'redress proxx submit card.json --actor ann'],
  run: (command, parsed) =>
    at(command, parsed, async (opened) => {
      const job = await opened.place.submit(readSpecFile(command, parsed.positionals[0] as string))
      tellMade(job, opened, parsed)
    }),
}

export const retry: Program = {
  options: [
    REASON_OPTION,
    ownOption('spec FILE', 'text', 'another spec for the new job, or - for standard input; without it the same'),
    ownOption('again', 'flag', 'retry again, even if it was already retried'),
    ...PLACE_OPTIONS,
  ],
  places: [ID_PLACE],
  examples: [
    `redress proxx retry JOB --reason 'the disk has room again'`,
    `redress proxx retry JOB --spec card.json --reason 'another folder'`,
  ],
  run: (command, parsed) => {
    const reason = reasonOf(parsed)
    return at(command, parsed, async (opened) => {
      const { spec } = parsed.values
      const edited = typeof spec === 'string' ? { spec: readSpecFile(command, spec) } : {}
      const act = { reason, again: parsed.values.again === true, ...edited }
      tellMade(await opened.place.retry(parsed.positionals[0] as string, act), opened, parsed)
    })
  },
}

export const markFailed: Program = {
  options: [REASON_OPTION, ...PLACE_OPTIONS],
  places: [ID_PLACE],
  examples: [`redress proxx mark-failed JOB --reason 'its machine is gone for good'`],
  run: (command, parsed) => {
    const reason = reasonOf(parsed)
    return at(command, parsed, async ({ place, flags }) => {
      const job = await place.markFailed(parsed.positionals[0] as string, { reason })
      if (parsed.values.json === true) return printJson(job)
      print(`Job ${job.id} is ${job.status}.\n`)
      hint(`\`${commandName()} proxx retry ${job.id} --reason 'say why'${flags}\` makes a new one of it.`)
    })
  },
}

export const orphans: Program = {
  options: [
    ownOption('wait', 'flag', 'wait until there is one'),
    ownOption('timeout TIME', 'text', 'with --wait: no longer than this, 30s or 5m'),
    ...SERVER_OPTIONS,
  ],
  places: [],
  examples: ['redress proxx orphans', 'redress proxx orphans --wait --timeout 5m'],
  run: (command, parsed) =>
    at(command, parsed, async ({ place, flags }) => {
      const jobs = await orphansOf(place, waitMsOf(command, parsed))
      if (parsed.values.json === true) return printJson(jobs)
      if (jobs.length === 0) return hint('There are no orphans.')
      const shape = [
        { title: 'JOB', of: ({ id }: ProxxJob) => id },
        { title: 'WORKER', of: ({ worker }: ProxxJob) => worker },
        { title: 'STARTED', of: ({ startedAt }: ProxxJob) => startedAt },
        { title: 'SILENT SINCE', of: ({ orphanedAt }: ProxxJob) => orphanedAt },
      ]
      print(columns(jobs, shape, terminalOf(process.stdout, process.env, Date.now())))
      hint(
        `Nobody else takes them. Look, then say \`${commandName()} proxx mark-failed JOB --reason 'say why'${flags}\`.`,
      )
    }),
}

/** 0 without --wait: what is there is all that is asked for. */
function waitMsOf(command: Command, { values: { wait, timeout } }: Parsed): number {
  if (wait === true) return typeof timeout === 'string' ? durationMs(timeout, '--timeout') : Number.POSITIVE_INFINITY
  if (timeout !== undefined) throw usage(command, '--timeout is for --wait.')
  return 0
}

const LOOK_AGAIN_MS = 500

async function orphansOf(place: ProxxPlace, waitMs: number): Promise<ProxxJob[]> {
  const startedMs = performance.now()
  for (;;) {
    const jobs = await place.orphans()
    const leftMs = startedMs + waitMs - performance.now()
    if (jobs.length > 0 || waitMs === 0) return jobs
    if (leftMs <= 0) {
      throw new RedressError('WAIT_OVER', `No job became an orphan within ${formatMs(waitMs)}.`, {
        action: 'Wait again, or look later.',
      })
    }
    await setTimeout(Math.min(LOOK_AGAIN_MS, leftMs))
  }
}

export const verify: Program = {
  options: SERVER_OPTIONS,
  places: [ID_PLACE],
  examples: ['redress proxx verify JOB'],
  run: (command, parsed) =>
    at(command, parsed, async ({ place }) => {
      const id = parsed.positionals[0] as string
      const verdicts = await place.verify(id)
      if (parsed.values.json === true) printJson(verdicts)
      else {
        const line = ({ isGood, path, check, message }: (typeof verdicts)[number]) =>
          oneLine(`${path}: ${isGood ? 'good' : `BAD (${check})`}: ${message}`)
        print(verdicts.map((verdict) => `${line(verdict)}\n`).join(''))
      }
      if (verdicts.every(({ isGood }) => isGood)) return
      throw new RedressError('ARTIFACT_CORRUPT', `Not all outputs of job ${id} are as they were delivered.`, {
        action: 'Do not use those that are bad; submit a new job for them.',
        jobId: id,
      })
    }),
}

async function at(
  command: Command,
  parsed: Parsed,
  work: (opened: OpenedPlace) => Promise<void>,
  needsStore = true,
): Promise<void> {
  const opened = await openPlace(command, parsed, needsStore)
  try {
    await work(opened)
  } finally {
    await opened.stop()
  }
}

/** A job that failed before it was dispatched is there, and the command has failed all the same. */
function tellMade(job: ProxxJob, { flags }: OpenedPlace, { values }: Parsed): void {
  if (values.json === true) printJson(job)
  else print(`Job ${job.id} is ${job.status}.\n`)
  if (job.status !== 'failed') {
    if (values.json !== true) hint(`\`${commandName()} jobs wait ${job.id}${flags}\` waits for its end.`)
    return
  }
  const { code, message, problems } = job.error ?? { code: 'UNKNOWN', message: '', problems: [] }
  throw new RedressError('JOB_FAILED', `Job ${job.id} failed before anything was run: ${code}: ${message}`, {
    action: `Correct what is wrong, then \`${commandName()} proxx retry ${job.id} --spec FILE --reason 'say why'${flags}\`, or submit anew.`,
    jobId: job.id,
    problems: problems.map((problem) => (typeof problem === 'string' ? problem : problemLine(problem))),
  })
}

function problemLine(problem: unknown): string {
  const { code, path, message } = problem as { code?: string; path?: string; message?: string }
  return [code, path, message].filter(Boolean).join(': ')
}

function reasonOf({ values }: Parsed): string {
  if (typeof values.reason === 'string') return values.reason
  throw new RedressError('REASON_REQUIRED', 'No reason is given.', {
    action: `Add --reason 'why you do this': it is kept in the history.`,
  })
}

const print = (text: string): void => void process.stdout.write(printable(text))
const hint = (text: string): void => void process.stderr.write(printable(`${text}\n`))
const printJson = (value: unknown): void => void process.stdout.write(`${JSON.stringify(value, null, 2)}\n`)
