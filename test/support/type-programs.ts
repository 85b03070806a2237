/**
 * Programs that the compiler must judge, against the package as it is installed. A line that ends with `// error` must not
 * compile; every other line must.
 */
export const TYPE_PROGRAMS: Readonly<Record<string, string>> = {
  'contract.ts': `
import { failureCodes, jobType, typed } from 'redress'

export const convertType = jobType('pdf.convert', {
  input: typed<{ file: string; priority?: number }>(),
  output: typed<{ pages: number; at: Date }>(),
  codes: failureCodes({
    PDF_DAMAGED: { fault: 'caller', retry: 'never', message: 'The PDF is damaged.' },
    BUSY: { fault: 'dependency', retry: 'transient', message: 'The service is busy.' },
  }),
  ownersSee: 'BUSY',
  policy: { retry: { max: 3 } },
})

jobType('wrong', { run: () => 1 }) // error
jobType('wrong', { codes: convertType.codes, ownersSee: 'NO_SUCH' }) // error
`,

  'producer.ts': `
import { type BatchOutcome, JobFailed, type JobType, redress } from 'redress'
import { convertType } from './contract.js'

const app = redress({ store: 'sqlite::memory:' })
const convert = app.job(convertType)
const same: JobType<{ file: string; priority?: number }, { pages: number; at: string }, 'PDF_DAMAGED' | 'BUSY'> = convert
const plain: JobType<{ file: string; priority?: number }> = same
await plain.submit({ file: 'a.pdf' }, { owner: 'bob', delay: '5s' })
await convert.submit({ fil: 'a.pdf' }) // error
await convert.submit({ file: 7 }) // error
await convert.submit({ file: 'a.pdf' }, { delya: '5s' }) // error

const { pages, at } = await convert.submitAndWait({ file: 'a.pdf' }, { timeout: '5s', signal: AbortSignal.timeout(1) })
pages.toFixed(0)
at.slice(0, 10)
at.getTime() // error
await convert.submitAndWait({ file: 'a.pdf' }, { timout: '5s' }) // error

const outcome = await convert.result('id', { timeout: '5s' })
outcome.output // error
switch (outcome.kind) {
  case 'complete':
    outcome.output.pages.toFixed(0)
    outcome.output.page // error
    break
  case 'failed':
    outcome.error.failure.decision.because.trim()
    outcome.error.explanation.trim()
    if (outcome.error.code === 'PDF_DAMAGED' || outcome.error.code === 'WORKER_LOST') break
    if (outcome.error.code === 'PDF_DAMGED') break // error
    break
  case 'cancelled':
    outcome.error.actor?.trim()
    break
  default:
    outcome satisfies never
}

try {
  await convert.submitAndWait({ file: 'a.pdf' })
} catch (error) {
  error.code // error
  if (convert.isFailure(error)) {
    const code: 'PDF_DAMAGED' | 'BUSY' = error.code // error
    if (error.code === 'BUSY') error.jobId.trim()
    if (error.code === 'BUZY') error.jobId.trim() // error
  } else if (error instanceof JobFailed) {
    error.code.trim()
  }
}

const job = await convert.find('id')
job?.result?.pages.toFixed(0)
job?.result?.page // error
job?.input.file.trim()
job?.result.pages // error
const { jobs } = await convert.list({ status: 'failed', code: 'PDF_DAMAGED', since: new Date() })
if (jobs[0]?.errorCode === 'BUSY') jobs[0].result?.at.trim()
if (jobs[0]?.errorCode === 'BUZY') jobs.pop() // error
await convert.list({ code: 'BUZY' }) // error
await convert.list({ stauts: 'failed' }) // error

const report = app.job('report', { run: ({ batch, to }: { batch: BatchOutcome; to: string }) => [batch.id, to] })
const batch = await app.batches.create('one', {
  jobs: [convert.request({ file: 'a.pdf' })],
  onSettled: { job: report, input: { to: 'ann' } },
})
await app.batches.create('two', { onSettled: { job: report, input: { to: 7 } } }) // error
for await (const { input, outcome } of batch.results(convert)) {
  input.file.trim()
  if (outcome.kind === 'complete') outcome.output.pages.toFixed(0)
  if (outcome.kind === 'unfinished') outcome.status.trim()
  if (outcome.kind === 'failed' && outcome.error.code === 'BUZY') break // error
}
for await (const child of app.batches.results(batch.id, convert)) child.outcome.output // error
`,

  'worker.ts': `
import { redress } from 'redress'
import { convertType } from './contract.js'

const app = redress({ store: 'sqlite::memory:' })
const convert = app.job(convertType, {
  run: async ({ file, priority }, attempt) => {
    file.trim()
    priority?.toFixed(0)
    if (file === '') attempt.fail('PDF_DAMAGED')
    if (file === '') attempt.fail('PDF_DAMGED') // error
    return { pages: 3, at: new Date() }
  },
  verify: ({ pages, at }) => [pages.toFixed(0), at.getTime()],
})
const output: { pages: number; at: string } = await convert.submitAndWait({ file: 'a.pdf' })
output.pages.toFixed(0)

redress().job(convertType, {
  run: () => ({ pages: 'three', at: new Date() }), // error
})
redress().job(convertType, {
  run: () => ({ pages: 3 }), // error
})
const greet = app.job('greet', { run: async ({ name }: { name: string }) => ({ text: name, on: new Date(), twice: () => 2 }) })
const { text, on } = await greet.submitAndWait({ name: 'ada' })
on.slice(text.length)
;(await greet.submitAndWait({ name: 'ada' })).twice // error
const nothing: null = await app.job('quiet', { run: async () => {} }).submitAndWait({})
const listed = await app.job('list', { run: () => [1, undefined, { a: 1n, b: 'two' }] as const }).submitAndWait({})
listed[2].b.trim()
export { nothing }
`,

  'listeners.ts': `
import { type AppEvents, redress } from 'redress'

const app = redress({ store: 'sqlite::memory:' })
const remove = app.on('job.failed', async ({ jobId, failure, status }) => {
  jobId.trim()
  failure?.code.trim()
  failure.code // error
  if (status === 'fialed') return // error
})
await remove.ready
remove()
app.on('job.complete', ({ failure }) => failure) // error
app.on('job.progress', ({ done, note }) => [done?.toFixed(0), note?.trim()], { topics: ['type:pdf.convert'] })
app.on('job.progress', () => null, { topic: ['type:pdf.convert'] }) // error
app.on('breaker.opened', ({ subject, data }) => [subject.trim(), data])
app.on('job.faild', () => null) // error
const names: keyof AppEvents = 'batch.settled'
export { names }
`,

  'resize.ts': `
import type { IsolatedAttempt } from 'redress'

export default async ({ width }: { width: number }, attempt: IsolatedAttempt<'TOO_WIDE'>) => {
  attempt.progress({ done: 1, total: 2, note: 'half' })
  attempt.log('resizing', { width })
  if (width > 100) attempt.fail('TOO_WIDE')
  if (width > 100) attempt.fail('TO_WIDE') // error
  attempt.progres(1) // error
  return { bytes: width, at: new Date() }
}
`,

  'isolated.ts': `
import { failureCodes, inProcess, inThread, redress } from 'redress'
import type resize from './resize.js'

const app = redress({ store: 'sqlite::memory:' })
const codes = failureCodes({ TOO_WIDE: { fault: 'caller', retry: 'never', message: 'Too wide.' } })
const job = app.job('resize', { codes, run: inThread<typeof resize>('./resize.js', { memoryMb: 64, timeout: '5s' }) })
await job.submit({ width: 7 })
await job.submit({ widht: 7 }) // error
const { bytes, at } = await job.submitAndWait({ width: 7 })
bytes.toFixed(at.length)
at.getTime() // error
inThread('./resize.js', { memoryMB: 64 }) // error
inThread('./resize.js', { env: {} }) // error
inProcess<typeof resize>(new URL('./resize.js', import.meta.url), { env: { A: 'b' }, permissions: { read: ['/tmp'] } })
`,
}

/** The lines of a program that must not compile, counted from 1. */
export const linesWithError = (program: string): number[] =>
  program.split('\n').flatMap((line, at) => (line.trimEnd().endsWith('// error') ? [at + 1] : []))
