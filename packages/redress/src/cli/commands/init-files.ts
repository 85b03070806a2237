/** A file that `redress init` makes. */
export interface NewFile {
  /** From the folder of the project. */
  path: string
  text: string
}

/** A project of its own, in a folder without a package.json. */
export function newProject(name: string, redressVersion: string): NewFile[] {
  return [
    { path: 'package.json', text: json(manifestOf(name, redressVersion)) },
    { path: 'tsconfig.json', text: json(TSCONFIG) },
    { path: '.gitignore', text: 'node_modules/\n.redress/\n' },
    { path: 'src/app.ts', text: APP },
    { path: 'test/app.test.ts', text: testOf('../src/app.ts') },
  ]
}

/**
 * The files that are added to an existing project. They are ES modules by their names, whatever the project is.
 * `-test` and not `.test`: the runner of the project, such as Vitest or Jest, must not pick up a test for Node's runner.
 */
export function addedFiles(folder: string, language: 'ts' | 'js'): NewFile[] {
  const app = language === 'ts' ? 'app.mts' : 'app.mjs'
  return [
    { path: `${folder}/${app}`, text: language === 'ts' ? APP : withoutTypes(APP) },
    { path: `${folder}/app-test.mjs`, text: testOf(`./${app}`) },
  ]
}

/** Of the types that `APP` has. */
const withoutTypes = (text: string): string =>
  text
    .replace('type App, ', '')
    .replace(/^\/\*\*.*\ntype .*\n\n/m, '')
    .replace('(app: App, sendMail: SendMail)', '(app, sendMail)')

const json = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`

const manifestOf = (name: string, redressVersion: string) => ({
  name,
  private: true,
  type: 'module',
  engines: { node: '>=24.13' },
  scripts: {
    start: 'redress start --app src/app.ts',
    test: 'node --disable-warning=ExperimentalWarning --test',
    typecheck: 'tsc',
  },
  dependencies: { redress: `^${redressVersion}`, zod: '^4.0.0' },
  devDependencies: { '@types/node': '^24.0.0', typescript: '^5.9.0' },
})

const TSCONFIG = {
  compilerOptions: {
    target: 'es2024',
    module: 'nodenext',
    strict: true,
    noEmit: true,
    allowImportingTsExtensions: true,
    erasableSyntaxOnly: true,
    types: ['node'],
  },
  include: ['src', 'test'],
}

const APP = `import { type App, exponential, failureCodes, jobType, redress, rule } from 'redress'
import { z } from 'zod'

/** What a job takes, what it returns, what can go wrong, and what happens then. */
const welcome = jobType('mail.welcome', {
  input: z.object({ to: z.email() }),
  output: z.object({ messageId: z.string() }),
  codes: failureCodes({
    ADDRESS_UNKNOWN: { fault: 'caller', retry: 'never', message: 'There is no such mailbox.' },
    MAIL_SERVER_BUSY: { fault: 'dependency', retry: 'transient', message: 'The mail server stayed busy. Retry later.' },
  }),
  classify: [rule.errno(['ECONNREFUSED', 'ECONNRESET', 'ETIMEDOUT'], 'MAIL_SERVER_BUSY')],
  policy: {
    retry: { max: 3, backoff: exponential('1s', { jitter: '20%' }) },
    manualRetry: 'in-place',
    orphan: 'requeue',
  },
})

/** Sends a mail and returns its id. */
type SendMail = (to: string) => Promise<string | null>

/** Declares the job types in an app: the one below, or the one of a test. \`sendMail\` gives null for an unknown mailbox. */
export function declareJobs(app: App, sendMail: SendMail) {
  return app.job(welcome, {
    run: async ({ to }, attempt) => {
      const messageId = await sendMail(to)
      if (messageId === null) return attempt.fail('ADDRESS_UNKNOWN')
      return { messageId }
    },
  })
}

/** The app that \`redress start\` runs. Jobs are in .redress/redress.db. */
export const app = redress()

// Replace this with your mail server.
declareJobs(app, async (to) => (to.startsWith('nobody@') ? null : \`message for \${to}\`))
`

const testOf = (app: string): string => `import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testKit } from 'redress/testing'
import { declareJobs } from '${app}'

test('a mail is sent again when the mail server was busy', async () => {
  await using kit = testKit()
  let calls = 0
  const welcome = declareJobs(kit.app, async () => {
    if (++calls === 1) throw Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })
    return 'm1'
  })
  const { id } = await welcome.submit({ to: 'ann@example.org' })
  await kit.drain()
  const outcome = await welcome.result(id)
  assert.deepEqual(outcome, { kind: 'complete', jobId: id, output: { messageId: 'm1' } })
  assert.equal(calls, 2)
})

test('a mail to an unknown address fails at once', async () => {
  await using kit = testKit()
  let calls = 0
  const welcome = declareJobs(kit.app, async () => {
    calls++
    return null
  })
  const { id } = await welcome.submit({ to: 'nobody@example.org' })
  await kit.drain()
  const outcome = await welcome.result(id)
  assert.equal(outcome.kind === 'failed' && outcome.error.code, 'ADDRESS_UNKNOWN')
  assert.equal(calls, 1)
})
`
