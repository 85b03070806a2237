import { describe, expect, test } from 'vitest'
import { OPERATIONS } from '../../../src/operations/table.ts'
import { makeBench, refusal, WHO } from '../bench.ts'

const by = { actor: 'olga' }

describe('an account', () => {
  test('an account is created with a name and an optional email and reason, and is listed by name', async () => {
    const { app, clock } = await makeBench()
    const createdAt = new Date(clock.nowMs()).toISOString()
    const made = await app.perform('accounts.create', { name: 'bob', email: 'bob@example.com', ...by })
    const bob = { name: 'bob', email: 'bob@example.com', createdAt, disabledAt: null }
    expect(made).toEqual({ isDone: true, did: 'The account bob is created.', account: bob })
    await app.perform('accounts.create', { name: 'ann', ...by, reason: 'she is new' })
    const listed = await app.perform('accounts.list', {})
    expect(listed.accounts).toEqual([{ ...bob, name: 'ann', email: null }, bob])
    const { entries } = await app.perform('audit.list', { act: 'accounts' })
    expect(entries.map(({ actor, reason, ids }) => [actor, reason, ids])).toEqual([
      ['olga', 'she is new', ['ann']],
      ['olga', 'no reason given', ['bob']],
    ])
  })

  test('an account needs a new valid name and a valid email', async () => {
    const { app } = await makeBench()
    const create = (input: object) => refusal(app.perform('accounts.create', { name: 'ann', ...by, ...input }))
    for (const name of ['', 'two words', '7up', 'a/b', 'x'.repeat(101)]) {
      expect(await create({ name }), name).toMatchObject({ code: 'OPTION_INVALID' })
    }
    for (const email of ['', 'ann', 'ann@', '@example.com', 'ann@example', `${'x'.repeat(250)}@example.com`]) {
      expect(await create({ email }), email).toMatchObject({ code: 'OPTION_INVALID' })
    }
    expect(await create({ actor: ' ' })).toMatchObject({ code: 'REASON_REQUIRED' })
    expect((await app.perform('accounts.list', {})).accounts).toEqual([])
    await app.perform('accounts.create', { name: 'ann', ...by })
    expect(await create({})).toMatchObject({ code: 'ACCOUNT_EXISTS', httpStatus: 409 })
    expect(await create({ dryRun: true })).toMatchObject({ code: 'ACCOUNT_EXISTS' })
  })

  test('an account is disabled once, with a reason, and its name stays reserved', async () => {
    const { app } = await makeBench()
    await app.perform('accounts.create', { name: 'ann', ...by })
    const disable = (input: object = {}) => app.perform('accounts.disable', { name: 'ann', ...WHO, ...input })
    expect(await refusal(disable({ reason: '' }))).toMatchObject({ code: 'REASON_REQUIRED' })
    expect(await refusal(disable({ name: 'eve' }))).toMatchObject({ code: 'ACCOUNT_NOT_FOUND', httpStatus: 404 })
    const dry = await disable({ dryRun: true })
    expect(dry).toMatchObject({ isDone: false, account: { disabledAt: null } })
    expect(dry.did).toMatch(/^Nothing was done\. This disables the account ann and revokes all its tokens and sessions/)
    expect(await disable()).toMatchObject({ isDone: true, account: { name: 'ann', disabledAt: expect.any(String) } })
    expect(await disable()).toMatchObject({
      isDone: false,
      did: 'Nothing was done: the account ann is already disabled.',
    })
    expect(await refusal(app.perform('accounts.create', { name: 'ann', ...by }))).toMatchObject({
      code: 'ACCOUNT_EXISTS',
    })
  })

  test('a dry run creates nothing', async () => {
    const { app } = await makeBench()
    const dry = await app.perform('accounts.create', { name: 'ann', ...by, dryRun: true })
    expect(dry).toEqual({ isDone: false, did: 'Nothing was done. This creates the account ann.', account: null })
    expect((await app.perform('accounts.list', {})).accounts).toEqual([])
  })
})

test('every answer about access matches its schema', async () => {
  const { app } = await makeBench()
  const answers = {
    'accounts.create': await app.perform('accounts.create', { name: 'ann', email: 'ann@example.com', ...by }),
    'accounts.list': await app.perform('accounts.list', {}),
    'tokens.create': await app.perform('tokens.create', { name: 'ci', role: 'owner', account: 'ann', ...by }),
    'sign-in-links.create': await app.perform('sign-in-links.create', by),
    'tokens.list': await app.perform('tokens.list', {}),
    'tokens.revoke': await app.perform('tokens.revoke', {
      ...WHO,
      id: (await app.perform('tokens.list', { kind: 'link' })).tokens[0]?.id ?? '',
    }),
    'accounts.disable': await app.perform('accounts.disable', { name: 'ann', ...WHO }),
  } as const
  for (const [name, answer] of Object.entries(answers)) {
    const { output } = OPERATIONS[name as keyof typeof answers]
    expect(output?.parse(answer), name).toEqual(answer)
  }
})
