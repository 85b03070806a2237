import { afterEach, beforeEach, expect, test } from 'vitest'
import { DAY_MS } from '../../../src/core/text/duration.ts'
import { authenticate, openSession } from '../../../src/operations/accounts/authenticate.ts'
import { systemClock } from '../../../src/runtime/clock.ts'
import type { Store } from '../../../src/store/contract/store.ts'
import { openSqlite } from '../../../src/store/sqlite/store.ts'
import { json, redress } from '../command.ts'
import { type PreparedStore, prepareStore } from '../prepared-store.ts'

let prepared: PreparedStore
let store: Store
let at: string[]
beforeEach(async () => {
  prepared = await prepareStore()
  store = openSqlite({ path: `${prepared.data}/redress.db`, nowMs: systemClock.nowMs })
  at = ['--data', prepared.data]
})
afterEach(async () => {
  await store.stop()
  await prepared.remove()
})

test('a token is made by one command, which prints it and nothing else', async () => {
  const { code, stdout, stderr } = await redress(['tokens', 'create', '--role', 'operator', '--name', 'ci', ...at])
  expect(code).toBe(0)
  expect(stdout).toMatch(/^rdr_[\w-]{43}\n$/)
  expect(stderr).toContain('It is shown only once.')
  expect(stderr).toContain('redress tokens revoke ')
  expect(stderr).not.toContain(stdout.trim())
  expect(await authenticate(store, stdout.trim())).toMatchObject({ name: 'ci', role: 'operator' })
  // A day and two and a half hours: however long the commands take, the hours that are shown are two.
  await redress(['tokens', 'create', '--role', 'viewer', '--name', 'soon', '--expires', '26h30m', ...at])
  const tokens = (await json(['tokens', ...at])) as { name: string; createdAt: string; expiresAt: string }[]
  const ci = tokens.find(({ name }) => name === 'ci')
  expect(Date.parse(ci?.expiresAt ?? '') - Date.parse(ci?.createdAt ?? '')).toBe(90 * DAY_MS)
  const listed = await redress(['tokens', ...at])
  expect(listed.stdout).toMatch(/ID +NAME +ROLE +ACCOUNT +SCOPES +STATE +EXPIRES +LAST USED +MADE BY/)
  expect(listed.stdout).toMatch(/ci +operator +- +all +active +in \d.* tess$/m)
  expect(listed.stdout).toMatch(/soon +viewer +- +all +active +in 1 d 2 h .* tess$/m)
  expect(listed.stdout).not.toContain(stdout.trim())
})

test('scopes are given separated by commas or as repeated options', async () => {
  const made = (await json([
    ...['tokens', 'create', '--role', 'viewer', '--name', 'ci', '--scopes', 'jobs.list,jobs.show'],
    ...['--scopes', 'batches.*', '--expires', 'never', ...at],
  ])) as object
  expect(made).toMatchObject({ scopes: ['jobs.list', 'jobs.show', 'batches.*'], expiresAt: null })
  const wrong = await redress(['tokens', 'create', '--role', 'viewer', '--name', 'ci', '--scopes', 'jobs.lsit', ...at])
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('the nearest is jobs.list')])
  const twice = await redress(['tokens', 'create', '--role', 'viewer', '--role', 'admin', '--name', 'ci', ...at])
  expect([twice.code, twice.stderr]).toEqual([2, expect.stringContaining('--role is given twice')])
})

test('a token is revoked with a reason', async () => {
  const { token, id } = (await json(['tokens', 'create', '--role', 'viewer', '--name', 'ci', ...at])) as {
    token: string
    id: string
  }
  expect(await redress(['tokens', 'revoke', id, ...at])).toMatchObject({ code: 2 })
  const revoked = await redress(['tokens', 'revoke', id, '--reason', 'it leaked', '--yes', ...at])
  expect(revoked).toMatchObject({ code: 0, stdout: 'The token ci (viewer) is revoked.\n' })
  expect(await authenticate(store, token)).toBeNull()
  expect(await redress(['tokens', 'revoke', 'none', '--reason', 'it leaked', '--yes', ...at])).toMatchObject({
    code: 3,
  })
})

test('an account is made, listed and disabled', async () => {
  expect((await redress(['accounts', 'list', ...at])).stderr).toBe('No accounts.\n')
  const made = await redress(['accounts', 'create', 'ann', '--email', 'ann@example.com', ...at])
  expect(made).toMatchObject({ code: 0, stdout: 'The account ann is created.\n' })
  expect(made.stderr).toContain('redress tokens create --role owner --account ann')
  expect((await redress(['accounts', ...at])).stdout).toMatch(/^ann +ann@example\.com +active /m)
  expect(await redress(['accounts', 'create', 'ann', ...at])).toMatchObject({ code: 4 })
  const disabled = await redress(['accounts', 'disable', 'ann', '--reason', 'she left', '--yes', ...at])
  expect(disabled.code).toBe(0)
  expect((await redress(['accounts', ...at])).stdout).toMatch(/^ann .* disabled /m)
})

test('a sign-in link is made by one command, which prints the address and nothing else', async () => {
  const { code, stdout, stderr } = await redress(['sign-in', '--role', 'operator', '--for', '1h', ...at])
  expect(code).toBe(0)
  expect(stdout).toMatch(/^http:\/\/127\.0\.0\.1:7373\/sign-in\?code=rdrl_[\w-]{43}\n$/)
  expect(stderr).toContain('signs tess in once with the role operator')
  const secret = new URL(stdout.trim()).searchParams.get('code') ?? ''
  expect((await openSession(store, secret, 60_000))?.caller).toMatchObject({ name: 'tess', role: 'operator' })
})
