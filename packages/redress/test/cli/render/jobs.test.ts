import { spawn } from 'node:child_process'
import { existsSync, openSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { OperationOutput } from '../../../src/index.ts'
import { folder, json, ROOT, redress } from '../command.ts'
import { type PreparedStore, prepareStore } from '../prepared-store.ts'

let store: PreparedStore
let at: string[]

beforeAll(async () => {
  store = await prepareStore()
  at = ['--data', store.data]
})

afterAll(() => store.remove())

test('jobs are listed as a table with the whole id, and nothing but data on standard output', async () => {
  const { code, stdout, stderr } = await redress(['jobs', 'list', ...at])
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  const [head, ...lines] = stdout.trimEnd().split('\n')
  expect(head).toMatch(/^ID +STATUS +TRY +TYPE +AGE +ERROR$/)
  expect(lines).toHaveLength(6)
  expect(stdout).toMatch(new RegExp(`^${store.ids.failed} +failed +2/2 +pdf\\.convert +\\d+ m?s +GW_5XX$`, 'm'))
  expect(stdout).toMatch(new RegExp(`^${store.ids.orphaned} +orphaned`, 'm'))
})

test('a group without a command runs its list', async () => {
  const [bare, whole] = [
    await json(['jobs', '--limit', '2', ...at]),
    await json(['jobs', 'list', '--limit', '2', ...at]),
  ]
  expect(bare).toEqual(whole)
})

test('a list names its next page on standard error', async () => {
  const first = await redress(['jobs', '--limit', '4', ...at])
  const cursor = /More: add --cursor (\d+)/.exec(first.stderr)?.[1]
  const rest = (await json(['jobs', '--cursor', String(cursor), ...at])) as object[]
  expect(rest).toHaveLength(2)
})

test('--json prints an array, --jsonl prints lines, and the next page is on standard error', async () => {
  const whole = await redress(['jobs', '--limit', '4', '--json', ...at])
  const jobs = JSON.parse(whole.stdout) as { id: string }[]
  expect(jobs).toHaveLength(4)
  const { nextCursor } = JSON.parse(whole.stderr) as { nextCursor: string }
  const rest = (await json(['jobs', '--cursor', nextCursor, ...at])) as { id: string }[]
  const lines = await redress(['jobs', '--jsonl', ...at])
  expect(lines.stderr).toBe('')
  expect(
    lines.stdout
      .trimEnd()
      .split('\n')
      .map((line) => (JSON.parse(line) as { id: string }).id),
  ).toEqual([...jobs, ...rest].map(({ id }) => id))
  expect((await redress(['jobs', 'show', jobs[0]?.id ?? '', '--jsonl', ...at])).stderr).toContain('no option --jsonl')
})

test('a list is filtered', async () => {
  const found = async (...filter: string[]) =>
    ((await json(['jobs', 'list', ...filter, ...at])) as { id: string }[]).map(({ id }) => id)
  expect(await found('--status', 'complete')).toEqual([store.ids.complete])
  expect(await found('--owner', 'ann')).toEqual([store.ids.failed])
  expect(await found('--type', 'pdf.hang')).toEqual([store.ids.orphaned])
  expect(await found('--code', 'GW_5XX')).toContain(store.ids.failed)
  expect(await found('--q', store.ids.failed)).toEqual([store.ids.failed])
  expect(await found('--since', '2999-01-01T00:00Z')).toEqual([])
  expect((await redress(['jobs', 'count', '--owner', 'ann', '--code', 'GW_5XX', ...at])).stdout).toBe('1\n')
})

test('one job is shown with input, result and actions', async () => {
  const { stdout } = await redress(['jobs', 'show', store.ids.complete, ...at])
  for (const part of [
    /^status +complete$/m,
    /^input +\{"ok":true\}$/m,
    /^result +\{"pages":3\}$/m,
    /^actions +delete$/m,
  ]) {
    expect(stdout).toMatch(part)
  }
  expect(await json(['jobs', 'show', store.ids.failed, ...at])).toMatchObject({
    status: 'failed',
    errorCode: 'GW_5XX',
    owner: 'ann',
    actions: expect.arrayContaining([expect.objectContaining({ name: 'retry', allowed: true })]),
  })
})

test('explain gives the recorded reasons and a command that targets the same store [P40]', async () => {
  const { stdout } = await redress(['explain', store.ids.failed, ...at])
  expect(stdout).toMatch(
    /^FAILED\. Fault: dependency\. GW_5XX: It kept failing\.\nTried 2 of 2\. Nothing will happen by itself\.$/m,
  )
  expect(stdout).toContain('said     AttemptFailed: 502 Bad Gateway')
  expect(stdout).toContain(`redress jobs retry ${store.ids.failed} --data ${store.data} --reason 'say why'`)
  const said = (await json(['jobs', 'explain', store.ids.failed, ...at])) as { steps: object[]; verdict: string[] }
  expect(said.verdict[0]).toBe('FAILED.')
  expect(said.steps).toHaveLength(3)
})

test('events and failures are shown in full', async () => {
  const events = await redress(['jobs', 'events', store.ids.failed, ...at])
  expect(events.stdout.match(/^\S+Z +(\S+)/gm)?.map((line) => line.split(/ +/)[1])).toEqual([
    'queued',
    'processing',
    'retry',
    'processing',
    'failed',
  ])
  const failures = await redress(['jobs', 'failures', store.ids.failed, ...at])
  expect(failures.stdout).toMatch(/^rule +declared by the handler$/m)
  expect(failures.stdout).toMatch(/^decided +GW_5XX is transient; failure 2 of 2; no attempt is left$/m)
  const owners = await redress(['jobs', 'failures', store.ids.failed, '--owner', 'ann', ...at])
  expect(owners.stdout, 'nothing is announced that is not told').not.toMatch(/^detail$/m)
  expect(failures.stdout).toMatch(/^detail$/m)
  const none = await redress(['jobs', 'failures', store.ids.complete, ...at])
  expect(none).toEqual({ code: 0, stdout: '', stderr: 'No failures.\n' })
})

test('orphans, dead letters, queues, types, workers and policies are listed', async () => {
  const [orphans, letters, queues, types, workers, policy] = await Promise.all(
    [['orphans'], ['dead-letters'], ['queues'], ['types'], ['workers', '--all'], ['policy', 'show', 'pdf.convert']].map(
      async (words) => (await redress([...words, ...at])).stdout,
    ),
  )
  expect(orphans).toContain(store.ids.orphaned)
  expect(letters).toMatch(new RegExp(`^ +1 +${store.ids.letter} +pdf\\.fetch +1 +GW_5XX`, 'm'))
  expect(queues).toMatch(/^default +pdf\.convert +1 +1 +0 +0 +1 +1 +0 +-$/m)
  expect(types).toMatch(/^pdf\.convert +default +2 +in-place +report +none$/m)
  expect(workers).toContain('box:1:a')
  expect(policy).toMatch(/^\* retry\.max +2$/m)
  expect(policy).toMatch(/^ {2}lease\.ttl +30 s$/m)
})

test('activity is shown per minute, without empty minutes', async () => {
  const { code, stdout, stderr } = await redress(['activity', ...at])
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(stdout).toMatch(/^MINUTE +COMPLETE +FAILED +CANCELLED +WAIT P50 +WAIT P95 +FAILED ATTEMPTS$/m)
  expect(stdout).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d +\d+ +\d+ +0 .* dependency \d$/m)
  const { minutes } = (await json(['activity', '--type', 'pdf.convert', ...at])) as OperationOutput<'activity.show'>
  expect(minutes).toHaveLength(60)
  expect(minutes.reduce((sum, { faults }) => sum + faults.dependency, 0)).toBe(2)
  expect(await redress(['activity', '--type', 'nothing', ...at])).toEqual({
    code: 0,
    stdout: '',
    stderr: 'Nothing happened in the last 60 minutes.\n',
  })
})

test('an empty list prints a sentence on standard error and an empty array with --json', async () => {
  expect(await redress(['jobs', '--status', 'cancelled', ...at])).toEqual({ code: 0, stdout: '', stderr: 'No jobs.\n' })
  expect(await json(['jobs', '--status', 'cancelled', ...at])).toEqual([])
})

describe('missing things', () => {
  test('an unknown job exits with 3', async () => {
    const { code, stdout, stderr } = await redress(['explain', 'nobody', ...at])
    expect({ code, stdout }).toEqual({ code: 3, stdout: '' })
    expect(stderr).toBe(
      'JOB_NOT_FOUND: There is no job nobody.\nCheck the id; finished jobs are removed after their retention.\n',
    )
  })

  test('an unknown type exits with 3', async () => {
    const { code, stderr } = await redress(['policy', 'show', 'pdf.conver', ...at])
    expect(code).toBe(3)
    expect(stderr).toContain('known types: pdf.archive, pdf.convert')
  })

  test.each([
    ['jobs', 'list'],
    ['submit', 'pdf.convert', '{}'],
    ['retry', 'x', '--reason', 'y'],
  ])('a store that does not exist answers 3 and is not made: %s %s', async (...words) => {
    const data = join(folder(), 'nowhere')
    const { code, stderr } = await redress([...words, '--data', data])
    expect(code).toBe(3)
    expect(stderr).toContain(`STORE_NOT_FOUND: There is no store at ${join(data, 'redress.db')}.`)
    expect(existsSync(data)).toBe(false)
  })

  test('a file that is not a store exits with 1 and is unchanged', async () => {
    const file = join(folder(), 'notes.txt')
    writeFileSync(file, 'my notes, which are longer than the header of a database would be\n'.repeat(20))
    const { code, stderr } = await redress(['jobs', '--store', `sqlite:${file}`])
    expect(code).toBe(1)
    expect(stderr).toMatch(/^STORE_NOT_REDRESS: /)
  })

  test('an invalid store address exits with 2', async () => {
    const { code, stderr } = await redress(['jobs', '--store', 'mysql://x'])
    expect(code).toBe(2)
    expect(stderr).toContain('is not a store: write sqlite:path/to/file.db')
  })
})

test('the store may be named by the environment, and an option wins over it', async () => {
  const env = { REDRESS_STORE: `sqlite:${join(store.data, 'redress.db')}` }
  expect(await json(['queues'], { env })).toEqual(await json(['queues', ...at]))
  expect((await redress(['queues', '--data', join(store.data, 'no')], { env })).code).toBe(3)
})

test('a closed pipe is no error', async () => {
  const { spawnSync } = await import('node:child_process')
  const answer = spawnSync('/bin/sh', ['-c', `packages/redress/bin/redress jobs --data ${store.data} | head -1`], {
    encoding: 'utf8',
  })
  expect(answer).toMatchObject({ status: 0, stderr: '', stdout: expect.stringMatching(/^ID .*\n$/) })
})

describe('output that cannot be written', () => {
  /** A file that is open for reading only refuses what is written to it, as a full disk does. */
  const unwritable = () => {
    const file = join(folder(), 'out')
    writeFileSync(file, '')
    return openSync(file, 'r')
  }
  const ended = (args: string[], stdout: number | 'pipe', stderr: number | 'pipe') =>
    new Promise<{ code: number | null; said: string }>((resolve) => {
      const child = spawn(join(ROOT, 'packages/redress/bin/redress'), args, { stdio: ['ignore', stdout, stderr] })
      let said = ''
      child.stderr?.on('data', (part) => {
        said += part
      })
      child.on('close', (code) => resolve({ code, said }))
    })

  test('a failed write to standard output exits with 1 and prints no stack trace', async () => {
    expect(await ended(['jobs', ...at], unwritable(), 'pipe')).toEqual({
      code: 1,
      said: expect.stringMatching(/^OUTPUT_FAILED: The output cannot be written: [A-Z]+\.\n[^\n]+\n$/),
    })
    const { code, said } = await ended(['jobs', '--json', ...at], unwritable(), 'pipe')
    expect({ code, error: JSON.parse(said).error }).toMatchObject({ code: 1, error: { code: 'OUTPUT_FAILED' } })
  })

  test('a failed write to standard error does not change the exit code', async () => {
    expect(await ended(['jobs', 'show', 'nobody', ...at], 'pipe', unwritable())).toMatchObject({ code: 3 })
  })
})
