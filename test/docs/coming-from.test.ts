import { readFileSync, symlinkSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Logger, makeWorkerUtils, run as runGraphile, runOnce } from 'graphile-worker'
import type { App, JobType } from 'redress'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { CHECKOUT, run } from '../support/run/packing.ts'
import { startPostgres } from '../support/stores/postgres.ts'
import { temporaryFolder } from '../support/stores/sqlite.ts'
import { until } from '../support/until.ts'

const pageOf = (name: string): string => readFileSync(join(CHECKOUT, 'docs/guides/coming-from', `${name}.md`), 'utf8')

/** What the reader has beside the files of a page. */
const MAILER = 'export const send = async (to: string, _signal?: AbortSignal): Promise<string> => "sent to " + to\n'

/** What the calls of the other library refer to, in the tables of a page. */
const THEIRS: Readonly<Record<string, string>> = {
  bullmq: `
    import { DelayedError, type Job, type Queue, type QueueEvents, UnrecoverableError, Worker } from 'bullmq'
    declare const queue: Queue
    declare const worker: Worker
    declare const job: Job
    declare const queueEvents: QueueEvents
    declare const token: string
    declare const connection: { host: string }
    declare const data: { to: string }
    declare const processor: () => Promise<void>`,
  'pg-boss': `
    import type { PgBoss } from 'pg-boss'
    declare const boss: PgBoss
    declare const id: string
    declare const date: Date
    declare const data: { to: string }
    declare const handler: () => Promise<void>`,
  'graphile-worker': `
    import { type JobHelpers, run, type Runner, runOnce, type WorkerUtils } from 'graphile-worker'
    declare const utils: WorkerUtils
    declare const helpers: JobHelpers
    declare const runner: Runner
    declare const connectionString: string
    declare const taskList: {}
    declare const date: Date
    declare const payload: { to: string }`,
}

/** The same for the calls of Redress. */
const OURS = `
  import type { PoolClient } from 'pg'
  import { type Attempt, inThread } from 'redress'
  import { app, mail } from './jobs.ts'
  declare const attempt: Attempt<'NO_MAILBOX' | 'SERVER_BUSY'>
  declare const client: PoolClient
  declare const id: string
  declare const date: Date
  declare const input: { to: string }
  declare const by: { actor: string; reason: string }`

const CALL = /^(?:(?:throw|await|new|run:) )?[\w.]+\(.*\)$/
const POLICY = /^policy: (\{.*\})$/
const BLOCK = /^```ts\n(.*?)^```/gms

const spansIn = (text: string): string[] => [...text.matchAll(/`([^`\n]+)`/g)].map(([, span = '']) => span)

/** The calls in the tables with the columns task, other library and Redress. */
function callsOf(page: string): { theirs: string[]; ours: string[] } {
  const theirs: string[] = []
  const ours: string[] = []
  let isCompared = false
  for (const line of page.split('\n')) {
    const [task, their = '', our = ''] = line.split(' | ')
    if (!line.startsWith('|')) isCompared = false
    else if (task === '| task') isCompared = our === 'Redress |'
    else if (isCompared) {
      theirs.push(...spansIn(their).filter((span) => CALL.test(span)))
      ours.push(...spansIn(our).filter((span) => CALL.test(span)))
    }
  }
  return { theirs, ours }
}

/** Each call in a function of its own: none of them runs, and none makes the next one unreachable. */
const functionsOf = (calls: readonly string[]): string =>
  calls.map((call, place) => `export const call${place} = async () => { ${call.replace(/^run: /, '')} }`).join('\n')

/** The code blocks of a page, by the name that the reader saves them as, or by their line. */
function blocksOf(page: string): Record<string, string> {
  const blocks = [...page.matchAll(BLOCK)].map(({ index, 1: block = '' }) => {
    const before = page.slice(0, index)
    const saved = /save\s+this\s+as `([^`]+)`:\s*$/i.exec(before)?.[1]
    return [saved ?? `line-${before.split('\n').length}.ts`, block]
  })
  return Object.fromEntries(blocks)
}

/** A folder that finds the packages of this checkout. */
async function projectWith(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = temporaryFolder()
  symlinkSync(join(CHECKOUT, 'node_modules'), join(folder, 'node_modules'))
  for (const [name, text] of Object.entries({ 'package.json': '{ "type": "module" }', ...files })) {
    await mkdir(dirname(join(folder, name)), { recursive: true })
    await writeFile(join(folder, name), text)
  }
  return folder
}

describe('the pages for users of BullMQ, pg-boss and graphile-worker', () => {
  test('every call in a code block or a table compiles, those of the other library and those of Redress', async () => {
    const files: Record<string, string> = { 'wrong.ts': `import { app } from './bullmq/jobs.ts'\napp.sumbit()\n` }
    for (const name of Object.keys(THEIRS)) {
      const page = pageOf(name)
      const { theirs, ours } = callsOf(page)
      expect(Math.min(theirs.length, ours.length), name).toBeGreaterThan(20)
      const own = {
        ...blocksOf(page),
        'mailer.ts': MAILER,
        'theirs.ts': `${THEIRS[name]}\n${functionsOf(theirs)}`,
        'ours.ts': `${OURS}\n${functionsOf(ours)}`,
      }
      for (const [file, text] of Object.entries(own)) files[`${name}/${file}`] = text
    }
    const project = await projectWith({
      ...files,
      'tsconfig.json': JSON.stringify({
        extends: join(CHECKOUT, 'tsconfig.json'),
        compilerOptions: { incremental: false, tsBuildInfoFile: null },
        files: Object.keys(files),
      }),
    })
    const tsc = join(CHECKOUT, 'node_modules/typescript/bin/tsc')
    const { stdout } = await run(process.execPath, [tsc, '-p', '.', '--pretty', 'false'], { cwd: project })
    // `npm run check` judges the sources of the package.
    const errors = stdout
      .split('\n')
      .filter((line) => / error TS/.test(line) && !line.includes('packages/redress/src/'))
    expect(errors).toEqual([expect.stringContaining('wrong.ts(2,5): error TS')])
  })

  test.each(Object.keys(THEIRS))('the job types and policies of %s.md can be declared', async (name) => {
    vi.stubEnv('DATABASE_URL', 'sqlite::memory:')
    const page = pageOf(name)
    const policies = spansIn(page).flatMap((span) => POLICY.exec(span)?.[1] ?? [])
    const made = policies.map((fields) => `policy(${fields}),`).join('\n')
    const project = await projectWith({
      'mailer.ts': MAILER,
      'jobs.ts': blocksOf(page)['jobs.ts'] ?? '',
      'policies.ts': `import { exponential, policy, table } from 'redress'\nexport default [${made}]\n`,
    })
    const { app, mail } = (await import(join(project, 'jobs.ts'))) as { app: App; mail: JobType<{ to: string }> }
    expect(app.describe(mail.name)?.policy.orphan.action).toBe('requeue')
    const { default: declared } = (await import(join(project, 'policies.ts'))) as { default: unknown[] }
    expect(declared.length).toBeGreaterThan(5)
  })
})

test('the program of graphile-worker.md imports what waits and what failed, once, and leaves what runs', async () => {
  const { url: connectionString, stop } = await startPostgres()
  onTestFinished(stop)
  vi.stubEnv('DATABASE_URL', connectionString)
  vi.stubEnv('REDRESS_STORE', undefined)
  const page = pageOf('graphile-worker')
  const project = await projectWith({ ...blocksOf(page), 'mailer.ts': MAILER })
  const imported = async (...options: string[]): Promise<{ lines: string[]; counts: unknown }> => {
    const conditions = ['--conditions=redress-source', '--disable-warning=ExperimentalWarning']
    const args = [...conditions, 'import-graphile.ts', ...options]
    const { stdout, stderr, code } = await run(process.execPath, args, { cwd: project })
    expect(code, stderr).toBe(0)
    const lines = stdout.trim().split('\n')
    return { counts: JSON.parse(lines.pop() as string), lines }
  }

  const options = { connectionString, logger: new Logger(() => () => undefined), noHandleSignals: true }
  const utils = await makeWorkerUtils(options)
  onTestFinished(async () => void (await utils.release()))
  await utils.migrate()
  await utils.addJob('send_email', { to: 'eve' }, { maxAttempts: 1 })
  await utils.addJob('send_email', { to: 'fay' })
  const refuse = () => Promise.reject(new Error('mailbox full'))
  await runOnce({ ...options, taskList: { send_email: refuse } })
  const transaction = /^```sql\n(.*?)^```/ms.exec(page)?.[1] ?? ''
  await utils.withPgClient((client) => client.query(`CREATE TABLE users (email text); ${transaction}`))
  await utils.addJob('send_email', { to: 'bob' }, { runAt: new Date('2100-01-01'), priority: -5 })
  const invalid = await utils.addJob('send_email', { name: 'cyn' })
  const unknown = await utils.addJob('send_letter', { to: 'dan' })
  await utils.addJob('send_parcel', { to: 'gus' })
  const parcel = Promise.withResolvers<void>()
  const started = Promise.withResolvers<void>()
  const send_parcel = () => {
    started.resolve()
    return parcel.promise
  }
  const runner = await runGraphile({ ...options, taskList: { send_parcel } })
  await started.promise

  expect((await imported('--dry-run')).counts).toEqual({ imported: 4, already: 0, refused: 2, running: 1 })
  const { counts, lines } = await imported()
  expect(counts).toEqual({ imported: 4, already: 0, refused: 2, running: 1 })
  expect(lines).toEqual([
    expect.stringMatching(new RegExp(`^job ${invalid.id}: .*to`)),
    expect.stringMatching(new RegExp(`^job ${unknown.id}: .*send_letter`)),
  ])
  parcel.resolve()
  await runner.stop()
  expect((await imported()).counts).toEqual({ imported: 0, already: 4, refused: 2, running: 0 })

  const { app, mail } = (await import(join(project, 'jobs.ts'))) as { app: App; mail: JobType<{ to: string }> }
  onTestFinished(() => app.stop())
  expect(await mail.submit({ to: 'again' }, { dedupe: 'user-7' })).toMatchObject({ isNew: false })
  await app.work({ signals: false })
  const statuses = async (): Promise<unknown> => {
    const { jobs } = await mail.list()
    const inputs = await Promise.all(jobs.map(async ({ id }) => (await mail.find(id))?.input.to))
    return Object.fromEntries(
      jobs.map(({ status, priority, retryAfter }, i) => [inputs[i], { status, priority, retryAfter }]),
    )
  }
  await until('the due jobs are complete', async () => (await mail.list({ status: 'complete' })).jobs.length === 2)
  expect(await statuses()).toMatchObject({
    'ann@example.org': { status: 'complete', priority: 0 },
    bob: { status: 'queued', priority: 5, retryAfter: '2100-01-01T00:00:00.000Z' },
    eve: { status: 'failed' },
    fay: { status: 'complete' },
  })
  const [failed] = (await mail.list({ status: 'failed' })).jobs
  expect(await app.explain(failed?.id as string)).toContain('mailbox full')
})
