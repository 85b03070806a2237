import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { json, redress } from '../command.ts'
import { type PreparedStore, prepareStore } from '../prepared-store.ts'

let store: PreparedStore
let at: string[]

beforeEach(async () => {
  store = await prepareStore()
  at = ['--data', store.data]
})

afterEach(() => store.remove())

const statusOf = async (id: string) => ((await json(['jobs', 'show', id, ...at])) as { status: string }).status

describe('acting on a job', () => {
  test('the CLI retries a failed job in the name of the user [P40 D22]', async () => {
    const id = store.ids.failed
    const { code, stdout, stderr } = await redress(['retry', id, '--reason', 'the gateway is back', ...at])
    expect({ code, stdout }).toEqual({ code: 0, stdout: `Job ${id} is back in the queue.\n` })
    expect(stderr).toMatch(new RegExp(`^Next: .*redress explain ${id} --data ${store.data}\n$`))
    expect(await json(['jobs', 'events', id, ...at])).toEqual(
      expect.arrayContaining([
        expect.objectContaining({
          kind: 'manual-retry',
          data: expect.objectContaining({ actor: 'tess', reason: 'the gateway is back' }),
        }),
      ]),
    )
  })

  test('a retry that makes a new job accepts another input [P41 P44]', async () => {
    const id = store.ids.archive
    const answer = await json(['jobs', 'retry', id, '--reason', 'other file', '--input', '{"file":"b.pdf"}', ...at])
    const made = (answer as { job: { id: string } }).job.id
    expect(await json(['jobs', 'show', made, ...at])).toMatchObject({ retriedFrom: id, input: { file: 'b.pdf' } })
    expect(await statusOf(id)).toBe('failed')
    // Once: a second one is refused and names the first, unless it is asked for.
    const twice = await redress(['jobs', 'retry', id, '--reason', 'once more', ...at])
    expect([twice.code, twice.stderr]).toEqual([4, expect.stringContaining(`it was retried as job ${made}`)])
    expect((await redress(['jobs', 'show', id, ...at])).stdout).toContain(`retried as        ${made}`)
    const again = await json(['jobs', 'retry', id, '--reason', 'once more', '--again', ...at])
    expect(again).toMatchObject({ isDone: true, job: { retriedFrom: id } })
  })

  test('the CLI marks an orphan as failed [P56]', async () => {
    const id = store.ids.orphaned
    const words = ['jobs', 'mark-failed', id, '--reason', 'its machine is gone', '--actor', 'ann', '--yes']
    const answer = await json([...words, ...at])
    expect(answer).toMatchObject({ isDone: true, job: { status: 'failed', errorCode: 'MARKED_FAILED' } })
    expect((await redress(['orphans', ...at])).stderr).toContain('No orphans')
  })

  test('a queued job is cancelled', async () => {
    const { stdout } = await redress(['jobs', 'cancel', store.ids.queued, '--reason', 'not wanted', '--yes', ...at])
    expect(stdout).toBe(`Job ${store.ids.queued} is cancelled.\n`)
  })

  test.each([
    ['retry', 'failed', 'sends it back to the queue with a fresh budget'],
    ['retry', 'archive', 'makes a new job with the same input'],
    ['mark-failed', 'orphaned', 'ends it as failed; its worker is gone'],
    ['cancel', 'queued', 'takes it out of the queue'],
  ] as const)('--dry-run says what %s would do to a job that is %s, and does nothing', async (act, which, would) => {
    const id = store.ids[which]
    const before = await json(['jobs', ...at])
    const { code, stdout } = await redress(['jobs', act, id, '--reason', 'x', '--dry-run', ...at])
    expect(code).toBe(0)
    expect(stdout).toMatch(/^Nothing was done\. /)
    expect(stdout).toContain(would)
    expect(await json(['jobs', ...at])).toEqual(before)
  })

  test('a reason is required', async () => {
    const { code, stderr } = await redress(['retry', store.ids.failed, ...at])
    expect(code).toBe(2)
    expect(stderr).toBe(
      `REASON_REQUIRED: A reason is required.\nAdd --reason 'why you do this'. It is recorded in the history.\n`,
    )
  })

  test('an action that the state does not allow exits with 4 and names the state [W30]', async () => {
    const id = store.ids.complete
    const { code, stderr } = await redress(['retry', id, '--reason', 'x', '--json', ...at])
    expect(code).toBe(4)
    expect(JSON.parse(stderr)).toEqual({
      error: {
        code: 'JOB_WRONG_STATE',
        message: `Job ${id} cannot be retried: only a failed job can be retried; this one is complete.`,
        action: 'Look at the job again: it may have moved on since you looked.',
        jobId: id,
      },
    })
  })
})

describe('submitting', () => {
  test('a job is submitted with its input as JSON, from a file, or from standard input', async () => {
    const file = join(store.data, 'input.json')
    writeFileSync(file, '{"ok":false}')
    const inputs = [['{"ok":true}'], [`@${file}`], ['-'], []]
    const shown = await Promise.all(
      inputs.map(async (input) => {
        const answer = await json(['submit', 'pdf.convert', ...input, ...at], { stdin: '{"ok":1}' })
        return ((await json(['jobs', 'show', (answer as { job: { id: string } }).job.id, ...at])) as { input: object })
          .input
      }),
    )
    expect(shown).toEqual([{ ok: true }, { ok: false }, { ok: 1 }, {}])
  })

  test('with owner, priority, delay and a dedupe key', async () => {
    const options = ['--owner', 'bob', '--priority', '-5', '--delay', '5m', '--dedupe', 'one']
    const words = ['submit', 'pdf.convert', '{}', ...options, ...at]
    expect(await json(words)).toMatchObject({ job: { owner: 'bob', priority: -5, retryAfter: expect.any(String) } })
    expect((await redress(words)).stdout).toMatch(/^Nothing was submitted: job \S+ already exists and is queued\.\n$/)
  })

  test('to an unknown type exits with 3', async () => {
    const { code, stderr } = await redress(['submit', 'pdf.conver', '{}', ...at])
    expect(code).toBe(3)
    expect(stderr).toMatch(/^TYPE_UNKNOWN: /)
  })

  test.each([
    ['{nope', 'input is not JSON'],
    ['@/no/such/file', 'Cannot read /no/such/file'],
  ])('with an invalid input exits with 2: %s', async (input, message) => {
    const { code, stderr } = await redress(['submit', 'pdf.convert', input, ...at])
    expect(code).toBe(2)
    expect(stderr).toContain(message)
  })

  test('with --dry-run submits nothing', async () => {
    const before = await json(['jobs', ...at])
    const { stdout } = await redress(['submit', 'pdf.convert', '{}', '--dry-run', ...at])
    expect(stdout).toBe('Nothing was done. This submits a job of type pdf.convert.\n')
    expect(await json(['jobs', ...at])).toEqual(before)
  })
})
