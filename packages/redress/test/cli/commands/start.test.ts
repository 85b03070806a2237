import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { hookServer } from '../../../../../test/support/servers/hooks.ts'
import { until } from '../../../../../test/support/until.ts'
import { App } from '../../../src/app/app.ts'
import { folder, json, ROOT, redressAlone, running } from '../command.ts'

interface Shown {
  status: string
  attemptCount: number
  errorCode: string | null
  result: unknown
}

const submit = async (data: string, type: string, input: object): Promise<string> =>
  ((await json(['submit', type, JSON.stringify(input), '--data', data])) as { job: { id: string } }).job.id

const show = async (data: string, id: string): Promise<Shown> =>
  (await json(['jobs', 'show', id, '--data', data])) as Shown

const ended = (data: string, id: string) =>
  until(`job ${id} has ended`, async () => {
    const job = await show(data, id)
    return ['complete', 'failed', 'cancelled'].includes(job.status) && job
  })

/** An app module in a folder of its own: outside the checkout it could not find the package by name. */
function appModule(text: string): string {
  const file = join(folder(), 'app.ts')
  const header = `import { redress } from ${JSON.stringify(join(ROOT, 'packages/redress/src/index.ts'))}\n`
  writeFileSync(file, header + text)
  return file
}

describe('start', () => {
  test('prints the store, the types, the worker and what to do next, and works until SIGTERM', async () => {
    const data = join(folder(), 'data')
    const {
      child,
      stdout,
      stderr,
      ended: exit,
    } = await running(['start', '--apps', 'sample', '--data', data], { says: 'Ctrl-C stops it' })
    expect(stdout()).toContain(`store   ${join(data, 'redress.db')}`)
    expect(stdout()).toContain('types   sample.convert, sample.archive')
    expect(stdout()).toMatch(/worker {2}\S+:\d+:\S+/)
    expect(stdout()).toContain(`npx redress submit sample.convert '{"file":"a.pdf","gateway":"down"}' --data ${data}`)
    expect(stdout()).toContain(`npx redress jobs list --data ${data}`)

    const id = await submit(data, 'sample.convert', { file: 'a.pdf', gateway: 'rejects' })
    expect(await ended(data, id)).toMatchObject({ status: 'failed', errorCode: 'GW_4XX', attemptCount: 1 })

    child.kill('SIGTERM')
    expect(await exit).toBe(0)
    expect(stderr()).toContain('Stopping: running jobs have 30 s to finish.')
    expect((await redressAlone(['workers', '--all', '--data', data])).stdout).toMatch(/stopped/)
  })

  test('lists job types and notification channels separately', async () => {
    const file = appModule(`
      const app = redress()
      app.channel('ops', { kind: 'none', deliver: () => ({ to: [], answer: '' }) })
      app.job('mine', { run: () => 1 })
      export default app
    `)
    const { stdout } = await running(['worker', file, '--data', folder()], { says: 'Ctrl-C stops it' })
    expect(stdout()).toMatch(/types {3}mine\n {2}notify {2}ops\n/)
    expect(stdout()).toContain("submit mine '{}'")
  })

  test.each([
    [
      'required fields',
      `z.object({ to: z.email(), name: z.string().min(6), age: z.int().min(18), kind: z.enum(['new', 'old']),
        tags: z.array(z.string()).min(1), note: z.string().optional() })`,
      `'{"to":"a@example.org","name":"textxx","age":18,"kind":"new","tags":["text"]}'`,
    ],
    ['only optional fields', 'z.object({ note: z.string().optional() })', `'{}'`],
    ['a number', 'z.number().min(3)', '3'],
    ['a rule that no example can know', `z.string().refine((text) => text === 'secret')`, 'INPUT'],
  ])('suggests an input that the schema accepts: %s', async (_, schema, input) => {
    const file = appModule(`
      import { z } from ${JSON.stringify(import.meta.resolve('zod'))}
      const app = redress()
      app.job('mine', { input: ${schema}, run: () => 1 })
      export default app
    `)
    const data = folder()
    const { stdout } = await running(['worker', file, '--data', data], { says: 'Ctrl-C stops it' })
    expect(stdout()).toContain(`submit mine ${input} --data ${data}\n`)
  })

  test('start prints a sign-in link for the first admin', async () => {
    const words = ['start', '--apps', 'sample', '--port', '0', '--no-worker', '--data', folder()]
    const { stdout } = await running(words, { says: 'Ctrl-C stops it' })
    expect(stdout()).toMatch(
      /No admin has signed in yet\. Open this link to sign in as the first admin\. It works once, within one hour:\n\n {2}http\S+\/sign-in\?code=\S+\n/,
    )
  })

  test('start logs JSON lines to standard error with job, type and code, without the input [W20]', async () => {
    const data = folder()
    const { stderr } = await running(['start', '--apps', 'sample', '--data', data], { says: 'worker started' })
    await ended(data, await submit(data, 'sample.archive', { file: 'secret-name.pdf', disk: 'full' }))
    const line = await until('the failure is logged', () => stderr().match(/^.*"msg":"failed".*$/m)?.[0])
    expect(JSON.parse(line)).toMatchObject({
      level: 'error',
      type: 'sample.archive',
      attempt: 1,
      error_code: 'DISK_FULL',
      because: 'DISK_FULL is never retried',
      time: expect.stringMatching(/^\d{4}-.*Z$/),
    })
    expect(JSON.parse(line)).not.toHaveProperty('input')
  })

  test('--json says the same as one line, and --quiet says nothing', async () => {
    const data = folder()
    const { stdout } = await running(['start', '--apps', 'sample', '--json', '--data', data], { says: '"worker":' })
    expect(JSON.parse(stdout())).toMatchObject({ types: ['sample.convert', 'sample.archive'] })
    const quiet = await running(['start', '--apps', 'sample', '--quiet', '--data', data], { says: '' })
    await until('the second worker is there', async () => {
      const workers = (await json(['workers', '--data', data])) as object[]
      return workers.length === 2
    })
    quiet.child.kill('SIGINT')
    expect([await quiet.ended, quiet.stdout(), quiet.stderr()]).toEqual([0, '', ''])
  })

  test.each([
    ['up', { status: 'complete', attemptCount: 1 }],
    ['garbles', { status: 'failed', errorCode: 'VERIFICATION_FAILED' }],
    ['surprises', { status: 'failed', errorCode: 'UNKNOWN', attemptCount: 1 }],
  ])('the sample fails in several ways: %s', async (gateway, outcome) => {
    const data = folder()
    await running(['start', '--apps', 'sample', '--data', data], { says: 'worker started' })
    expect(await ended(data, await submit(data, 'sample.convert', { file: 'a', gateway }))).toMatchObject(outcome)
  })

  test('an invalid number is refused before anything starts', async () => {
    const data = join(folder(), 'data')
    expect((await redressAlone(['start', '--apps', 'sample', '--concurrency', '0', '--data', data])).code).toBe(2)
    const { code } = await redressAlone(['start', '--apps', 'sample', '--concurrency', 'lots', '--data', data])
    expect({ code, made: existsSync(data) }).toEqual({ code: 2, made: false })
    const { code: bad, stderr } = await redressAlone(['start', '--apps', 'sample', '--grace', 'soon', '--data', data])
    expect({ bad, stderr }).toEqual({ bad: 2, stderr: expect.stringContaining('--grace: "soon" is not a duration') })
  })
})

test('start --no-worker delivers notices through the channels of its app, and runs no job', async () => {
  const data = folder()
  const hooks = await hookServer()
  const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
  const file = appModule(`
    import { webhook } from ${JSON.stringify(join(ROOT, 'packages/redress/src/notify/index.ts'))}
    const app = redress()
    app.channel('ops', webhook({ url: '${hooks.url}', secrets: ['${secret}'] }))
    app.job('work', { run: () => 'done' })
    export default app
  `)
  const { child, ended: exit } = await running(['start', '--app', file, '--port', '0', '--no-worker', '--data', data], {
    says: 'Ctrl-C stops it',
  })
  const waiting = await submit(data, 'work', {})
  const submitter = new App({ store: `sqlite:${join(data, 'redress.db')}` })
  onTestFinished(() => submitter.stop())
  submitter.job('strict', {
    policy: { reject: 'record', notify: { failed: ['ops'] } },
    admit: () => {
      throw new Error('never good enough')
    },
    run: () => undefined,
  })
  await submitter.submit('strict', {})
  await until('the webhook is there', () => hooks.hooks.length === 1)
  expect(await show(data, waiting)).toMatchObject({ status: 'queued' })
  child.kill('SIGTERM')
  expect(await exit).toBe(0)
})

describe('worker', () => {
  const SLOW = `
    export const app = redress()
    app.job('slow', {
      run: async ({ until }, attempt) => {
        const { existsSync } = await import('node:fs')
        while (!existsSync(until)) await new Promise((resolve) => setTimeout(resolve, 10))
        return 'done'
      },
    })`

  const processing = (data: string, id: string) =>
    until(`job ${id} runs`, async () => (await show(data, id)).status === 'processing')

  test('runs the app that a module exports, on the store that the options name', async () => {
    const data = folder()
    const file = appModule(`const app = redress()\napp.job('double', { run: (n) => n * 2 })\nexport default app`)
    const { stdout } = await running(['worker', file, '--data', data], { says: 'Ctrl-C stops it' })
    expect(await ended(data, await submit(data, 'double', 21 as unknown as object))).toMatchObject({ result: 42 })
    expect(stdout()).toContain(`submit double '{}' --data ${data}`)
  })

  test('SIGTERM lets a running job finish, and the exit code is 0', async () => {
    const data = folder()
    const {
      child,
      stderr,
      ended: exit,
    } = await running(['worker', appModule(SLOW), '--data', data], { says: 'Ctrl-C stops it' })
    const go = join(data, 'go')
    const id = await submit(data, 'slow', { until: go })
    await processing(data, id)
    child.kill('SIGTERM')
    await until('it says that it stops', () => stderr().includes('Stopping'))
    writeFileSync(go, '')
    expect(await exit).toBe(0)
    expect(await show(data, id)).toMatchObject({ status: 'complete', result: 'done' })
  })

  test('a job that ignores its abort signal goes back to the queue after the grace period', async () => {
    const data = folder()
    const words = ['worker', appModule(SLOW), '--grace', '50ms', '--data', data]
    const { child, ended: exit } = await running(words, { says: 'worker started' })
    const id = await submit(data, 'slow', { until: join(data, 'never') })
    await processing(data, id)
    child.kill('SIGTERM')
    expect(await exit).toBe(0)
    expect(await show(data, id)).toMatchObject({ status: 'queued', attemptCount: 1 })
  })

  test('a second signal exits at once', async () => {
    const data = folder()
    const {
      child,
      stderr,
      ended: exit,
    } = await running(['worker', appModule(SLOW), '--data', data], { says: 'Ctrl-C stops it' })
    await processing(data, await submit(data, 'slow', { until: join(data, 'never') }))
    child.kill('SIGINT')
    await until('it says that it stops', () => stderr().includes('SIGINT again exits at once'))
    child.kill('SIGINT')
    expect(await exit).toBe(130)
  })

  test('an app with its own store keeps it, and a note says so', async () => {
    const [data, own] = [folder(), join(folder(), 'own.db')]
    const file = appModule(`export const app = redress({ store: 'sqlite:${own}' })\napp.job('x', { run: () => 1 })`)
    const { stdout, stderr } = await running(['worker', file, '--data', data], { says: 'Ctrl-C stops it' })
    expect(stderr()).toContain(`uses its own store (sqlite:${own})`)
    expect(stdout()).toContain(`--store sqlite:${own}`)
  })

  test.each([
    ['a module that exports no app', 'export const app = 42', 'exports no app'],
    ['a module that throws', 'throw new Error("no licence")', 'cannot be loaded: no licence'],
    [
      'a policy that contradicts itself',
      `export const app = redress()\napp.job('x', { policy: { forwardOnly: true, retry: { max: 2 } }, run: () => 1 })`,
      'forwardOnly contradicts retry.max',
    ],
  ])('%s is refused', async (_, text, message) => {
    const { code, stderr } = await redressAlone(['worker', appModule(text), '--data', folder()])
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringMatching(/^APP_NOT_LOADED: /) })
    expect(stderr).toContain(message)
  })

  test('a missing file is refused', async () => {
    expect(await redressAlone(['worker', '/no/app.ts'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('There is no file /no/app.ts.'),
    })
  })
})

test('an uncaught error of a handler is logged without secrets, and its job runs again', async () => {
  const data = folder()
  const file = appModule(`
const app = redress()
app.job('careless', {
  policy: { orphan: 'fail' },
  run: () => {
    void Promise.reject(new Error('login failed with password=sekrit113'))
    return new Promise(() => undefined)
  },
})
export default app
`)
  const { stderr, ended: exit } = await running(['worker', file, '--data', data], { says: 'worker started' })
  const id = await submit(data, 'careless', {})
  expect(await exit).toBe(1)
  expect(stderr()).toContain('an error escaped from a handler, and the worker ends')
  expect(stderr()).toContain('login failed with password=[redacted]')
  expect(stderr()).not.toContain('sekrit113')
  expect(await show(data, id)).toMatchObject({ status: 'failed', errorCode: 'WORKER_LOST' })
})
