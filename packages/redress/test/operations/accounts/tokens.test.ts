import { describe, expect, test } from 'vitest'
import { turns } from '../../../../../test/support/until.ts'
import { authenticate, endSession, openSession } from '../../../src/operations/accounts/authenticate.ts'
import type { Caller } from '../../../src/operations/caller.ts'
import type { OperationName } from '../../../src/operations/catalog.ts'
import { type Bench, makeBench, refusal, WHO } from '../bench.ts'

const DAY_MS = 86_400_000
const by = { actor: 'olga' }
const CI = { name: 'ci', role: 'operator', ...by } as const

async function tokenOf({ app }: Bench, input: object = {}): Promise<{ token: string; id: string }> {
  const { token, id } = await app.perform('tokens.create', { ...CI, ...input })
  return { token: String(token), id: String(id) }
}

async function codeOf({ app }: Bench, input: object = {}): Promise<string> {
  return String((await app.perform('sign-in-links.create', { ...by, ...input })).code)
}

describe('a token', () => {
  test('a token is shown once, is valid for 90 days and authenticates its user', async () => {
    const bench = await makeBench()
    const { app, clock, store } = bench
    const expiresAt = new Date(clock.nowMs() + 90 * DAY_MS).toISOString()
    const made = await app.perform('tokens.create', CI)
    expect(made).toEqual({
      ...{ isDone: true, did: `Created the token ci with the role operator, valid until ${expiresAt}.` },
      ...{ token: expect.stringMatching(/^rdr_/), id: expect.any(String), name: 'ci', role: 'operator' },
      ...{ account: null, scopes: null, expiresAt },
    })
    const caller = await authenticate(store, String(made.token))
    expect(caller).toMatchObject({ name: 'ci', role: 'operator', account: null, scopes: null, isPerson: false })
    const kept = [await app.perform('tokens.list', {}), await app.perform('audit.list', {}), caller]
    expect(JSON.stringify(kept)).not.toContain(made.token)
    await clock.advance(90 * DAY_MS)
    expect(await authenticate(store, String(made.token))).toBeNull()
    expect((await app.perform('tokens.list', {})).tokens).toMatchObject([{ name: 'ci', state: 'expired' }])
  })

  test('a token has the given lifetime, or none', async () => {
    const bench = await makeBench()
    const [short, lasting] = [await tokenOf(bench, { expires: '1h' }), await tokenOf(bench, { expires: 'never' })]
    await bench.clock.advance(3_600_000)
    expect(await authenticate(bench.store, short.token)).toBeNull()
    await bench.clock.advance(3_000 * DAY_MS)
    expect(await authenticate(bench.store, lasting.token)).toMatchObject({ name: 'ci' })
    for (const expires of ['0s', 'soon', '11000d', '']) {
      const refused = await refusal(bench.app.perform('tokens.create', { ...CI, expires }))
      expect(refused, expires).toMatchObject({ code: 'OPTION_INVALID' })
      expect(refused.message).toContain('expires')
    }
  })

  test('a token of an account acts under its name and ends with it', async () => {
    const bench = await makeBench()
    const { app, store } = bench
    const create = (input: object) => refusal(app.perform('tokens.create', { ...CI, ...input }))
    expect(await create({ account: 'ann' })).toMatchObject({ code: 'ACCOUNT_NOT_FOUND' })
    await app.perform('accounts.create', { name: 'ann', ...by })
    const { token } = await tokenOf(bench, { role: 'owner', account: 'ann' })
    const ann = { name: 'ann', role: 'owner', account: 'ann', isPerson: true }
    expect(await authenticate(store, token)).toMatchObject(ann)
    await app.perform('accounts.disable', { name: 'ann', ...WHO })
    expect(await authenticate(store, token)).toBeNull()
    expect((await app.perform('tokens.list', {})).tokens).toMatchObject([{ state: 'disabled' }])
    expect(await create({ account: 'ann' })).toMatchObject({ code: 'ACCOUNT_NOT_FOUND', message: /is disabled/ })
  })

  test('a token with the role owner needs an account', async () => {
    const { app } = await makeBench()
    const refused = await refusal(app.perform('tokens.create', { ...CI, role: 'owner' }))
    expect(refused).toMatchObject({ code: 'OPTION_INVALID', message: expect.stringContaining('account') })
  })

  test('a token can be limited to scopes, as a list or separated by commas', async () => {
    const bench = await makeBench()
    const scopes = ['jobs.*', 'batches.list']
    for (const given of [scopes, 'jobs.*, batches.list', ['jobs.*,batches.list', 'jobs.*']]) {
      const { token } = await tokenOf(bench, { scopes: given })
      expect(await authenticate(bench.store, token)).toMatchObject({ scopes })
    }
  })

  test('unknown and useless scopes are refused, with the nearest name', async () => {
    const { app } = await makeBench()
    const messageOf = async (scopes: string, role: 'viewer' | 'operator' = 'operator') =>
      (await refusal(app.perform('tokens.create', { ...CI, role, scopes }))).message
    expect(await messageOf('jobs.lst')).toBe('scopes: there is no operation jobs.lst; the nearest is jobs.list.')
    expect(await messageOf('job.*')).toContain('the nearest is jobs.*')
    expect(await messageOf('everything')).toBe('scopes: there is no operation everything.')
    expect(await messageOf('*')).toContain('there is no operation *')
    expect(await messageOf(' , ')).toContain('leave it out to allow everything')
    expect(await messageOf('jobs.retry', 'viewer')).toBe('scopes: the role viewer does not allow jobs.retry.')
    expect(await messageOf('tokens.*')).toBe('scopes: the role operator does not allow tokens.*.')
  })

  test('a token needs a valid name and an actor', async () => {
    const { app } = await makeBench()
    expect(await refusal(app.perform('tokens.create', { ...CI, name: 'two words' }))).toMatchObject({
      code: 'OPTION_INVALID',
    })
    expect(await refusal(app.perform('tokens.create', { ...CI, actor: '' }))).toMatchObject({
      code: 'REASON_REQUIRED',
    })
  })

  test('a dry run creates nothing', async () => {
    const { app } = await makeBench()
    const dry = await app.perform('tokens.create', { ...CI, dryRun: true })
    expect(dry).toMatchObject({ isDone: false, token: null, id: null, name: 'ci' })
    expect(dry.did).toMatch(/^Nothing was done\. This creates the token ci/)
    expect((await app.perform('tokens.list', {})).tokens).toEqual([])
  })

  test('a token is revoked with a reason, at once and only once', async () => {
    const bench = await makeBench()
    const { app, store } = bench
    const { token, id } = await tokenOf(bench)
    expect(await authenticate(store, token)).not.toBeNull()
    const revoke = (input: object = {}) => app.perform('tokens.revoke', { id, ...WHO, ...input })
    expect(await refusal(revoke({ reason: '' }))).toMatchObject({ code: 'REASON_REQUIRED' })
    expect(await refusal(revoke({ id: 'none' }))).toMatchObject({ code: 'TOKEN_NOT_FOUND', httpStatus: 404 })
    expect(await revoke({ dryRun: true })).toMatchObject({ isDone: false, token: { state: 'active' } })
    expect(await authenticate(store, token)).not.toBeNull()
    expect(await revoke()).toMatchObject({
      isDone: true,
      did: 'The token ci (operator) is revoked.',
      token: { id, state: 'revoked' },
    })
    expect(await authenticate(store, token)).toBeNull()
    expect(await revoke()).toMatchObject({ isDone: false, did: expect.stringContaining('already revoked') })
  })

  test('says when it was last used, to the minute', async () => {
    const bench = await makeBench()
    const { app, clock, store } = bench
    const { token } = await tokenOf(bench)
    const firstAt = new Date(clock.nowMs()).toISOString()
    const lastUsedAt = async () => {
      await turns(5)
      return (await app.perform('tokens.list', {})).tokens[0]?.lastUsedAt
    }
    expect(await lastUsedAt()).toBeNull()
    await authenticate(store, token)
    expect(await lastUsedAt()).toBe(firstAt)
    await clock.advance(59_999)
    await authenticate(store, token)
    expect(await lastUsedAt()).toBe(firstAt)
    await clock.advance(1)
    await authenticate(store, token)
    expect(await lastUsedAt()).toBe(new Date(clock.nowMs()).toISOString())
  })

  test('a token works even if its last use cannot be recorded', async () => {
    const bench = await makeBench({}, (store) => ({
      ...store,
      markUsed: () => Promise.reject(new Error('the disk is full')),
    }))
    const { token } = await tokenOf(bench)
    expect(await authenticate(bench.store, token)).toMatchObject({ name: 'ci' })
  })

  test('tokens are listed page by page, newest first', async () => {
    const bench = await makeBench()
    for (const name of ['a', 'b', 'c']) await tokenOf(bench, { name })
    const first = await bench.app.perform('tokens.list', { limit: 2 })
    expect(first.tokens.map(({ name }) => name)).toEqual(['c', 'b'])
    const rest = await bench.app.perform('tokens.list', { limit: 2, cursor: Number(first.nextCursor) })
    expect([rest.tokens.map(({ name }) => name), rest.nextCursor]).toEqual([['a'], null])
  })

  test('workers remove tokens that ended long ago, and the audit trail stays', async () => {
    const bench = await makeBench()
    await tokenOf(bench, { expires: '1h' })
    await tokenOf(bench, { name: 'lasting', expires: 'never' })
    const names = async () => (await bench.app.perform('tokens.list', {})).tokens.map(({ name }) => name)
    await bench.clock.advance(30 * DAY_MS)
    await bench.worker.prune()
    expect(await names()).toEqual(['lasting', 'ci'])
    await bench.clock.advance(3_600_000)
    await bench.worker.prune()
    expect(await names()).toEqual(['lasting'])
    expect((await bench.app.perform('audit.list', { act: 'tokens.create' })).entries).toHaveLength(2)
  })
})

describe('an invalid token', () => {
  test('authenticates no one, and a malformed one does not reach the store', async () => {
    let asked = 0
    const bench = await makeBench({}, (store) => ({
      ...store,
      credential: (params) => {
        asked++
        return store.credential(params)
      },
    }))
    const { token } = await tokenOf(bench)
    for (const secret of ['', 'ci', 'rdr_', token.slice(0, -1), `${token}x`, `rdr_${'\0'.repeat(43)}`]) {
      expect(await authenticate(bench.store, secret), secret).toBeNull()
    }
    expect(asked).toBe(0)
    expect(await authenticate(bench.store, `rdr_${'a'.repeat(43)}`)).toBeNull()
    expect(asked).toBe(1)
  })
})

describe('a sign-in link', () => {
  test('a link signs a person in once, under the name of its maker, and is no token itself', async () => {
    const bench = await makeBench()
    const { app, store } = bench
    const made = await app.perform('sign-in-links.create', by)
    expect(made).toMatchObject({ role: 'admin', name: 'olga', path: `/sign-in?code=${made.code}` })
    const code = String(made.code)
    expect(await authenticate(store, code)).toBeNull()
    const opened = await openSession(store, code, DAY_MS)
    const olga = { name: 'olga', role: 'admin', account: null, isPerson: true }
    expect(opened?.caller).toMatchObject(olga)
    expect(await authenticate(store, String(opened?.secret))).toMatchObject(olga)
    expect(await openSession(store, code, DAY_MS)).toBeNull()
    expect((await app.perform('tokens.list', { kind: 'link' })).tokens).toMatchObject([{ state: 'used' }])
  })

  test('a link is valid for 15 minutes, or a given time of up to a week', async () => {
    const bench = await makeBench()
    const [usual, longer] = [await codeOf(bench), await codeOf(bench, { for: '1d' })]
    await bench.clock.advance(900_000)
    expect(await openSession(bench.store, usual, DAY_MS)).toBeNull()
    expect(await openSession(bench.store, longer, DAY_MS)).not.toBeNull()
    for (const length of ['0s', '8d', 'never']) {
      const refused = await refusal(bench.app.perform('sign-in-links.create', { ...by, for: length }))
      expect(refused, length).toMatchObject({ code: 'OPTION_INVALID' })
    }
  })

  test('of an account signs that account in, with the role and scopes that were given', async () => {
    const bench = await makeBench()
    await bench.app.perform('accounts.create', { name: 'ann', ...by })
    const code = await codeOf(bench, { role: 'owner', account: 'ann', scopes: 'jobs.list' })
    const opened = await openSession(bench.store, code, DAY_MS)
    expect(opened?.caller).toMatchObject({ name: 'ann', role: 'owner', account: 'ann', scopes: ['jobs.list'] })
  })

  test('a session ends after its time, on sign-out, or when an admin revokes it', async () => {
    const bench = await makeBench()
    const { app, clock, store } = bench
    const signIn = async () => {
      const opened = await openSession(store, await codeOf(bench), DAY_MS)
      return { secret: String(opened?.secret), id: String(opened?.caller.credential.id) }
    }
    const left = await signIn()
    await endSession(store, left.secret)
    expect(await authenticate(store, left.secret)).toBeNull()
    const ended = await signIn()
    await app.perform('tokens.revoke', { id: ended.id, ...WHO })
    expect(await authenticate(store, ended.secret)).toBeNull()
    const over = await signIn()
    await clock.advance(DAY_MS - 1)
    expect(await authenticate(store, over.secret)).not.toBeNull()
    await clock.advance(1)
    expect(await authenticate(store, over.secret)).toBeNull()
    const { entries } = await app.perform('audit.list', { act: 'sessions.revoke' })
    expect(entries.map(({ actor, reason }) => [actor, reason])).toEqual([
      ['ann', WHO.reason],
      ['olga', 'signed out'],
    ])
  })

  test('signing out does not end a token that is shown as a session', async () => {
    const bench = await makeBench()
    const { token } = await tokenOf(bench)
    await endSession(bench.store, token)
    await endSession(bench.store, 'nothing')
    expect(await authenticate(bench.store, token)).not.toBeNull()
  })

  test('an invalid link opens no session', async () => {
    const bench = await makeBench()
    const { token } = await tokenOf(bench, { role: 'admin' })
    for (const code of ['', 'x', token]) expect(await openSession(bench.store, code, DAY_MS)).toBeNull()
    expect(await authenticate(bench.store, token)).not.toBeNull()
  })
})

describe('a caller that gives access', () => {
  const admin: Caller = { name: 'root', role: 'admin', account: null, scopes: null, isPerson: true }

  test.each<OperationName>([
    'accounts.create',
    'accounts.list',
    'accounts.disable',
    'tokens.create',
    'tokens.list',
    'tokens.revoke',
    'sign-in-links.create',
  ])('%s is for admins', async (name) => {
    const { app } = await makeBench()
    for (const role of ['owner', 'viewer', 'operator'] as const) {
      const refused = await refusal(app.performAs({ ...admin, role, account: 'ann' }, name, {}))
      expect(refused).toMatchObject({ code: 'ROLE_TOO_LOW', httpStatus: 403 })
    }
  })

  test('the actor is the caller, whatever the request says', async () => {
    const { app } = await makeBench()
    await app.performAs(admin, 'tokens.create', { name: 'ci', role: 'viewer', actor: 'somebody else' })
    expect((await app.perform('tokens.list', {})).tokens).toMatchObject([{ createdBy: 'root' }])
  })

  test('a caller gives out no more than they have: new tokens get at most its scopes', async () => {
    const { app } = await makeBench()
    const scoped = { ...admin, scopes: ['tokens.create', 'sign-in-links.create', 'jobs.*'] }
    const create = (input: object) => app.performAs(scoped, 'tokens.create', { name: 'ci', role: 'admin', ...input })
    expect(await create({})).toMatchObject({ scopes: scoped.scopes })
    expect(await create({ scopes: 'jobs.list,tokens.create' })).toMatchObject({
      scopes: ['jobs.list', 'tokens.create'],
    })
    for (const scopes of ['tokens.*', ['jobs.list', 'queues.pause'], 'accounts.create']) {
      expect(await refusal(create({ scopes }))).toMatchObject({ code: 'ROLE_TOO_LOW' })
    }
    expect(await app.performAs(scoped, 'sign-in-links.create', {})).toMatchObject({ scopes: scoped.scopes })
    const free = await app.performAs(admin, 'tokens.create', { name: 'ci', role: 'admin' })
    expect(free).toMatchObject({ scopes: null })
  })
})
