import assert from 'node:assert/strict'
import type { NewCredential, StoredCredential } from '../../contract/accounts.ts'
import type { ActorAndReason, Store } from '../../contract/store.ts'
import type { Bench } from '../bench/bench.ts'
import { topic } from '../promise.ts'

const OLGA: ActorAndReason = { actor: 'olga', reason: 'she begins on Monday' }
const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

let made = 0

/** What a door would hand in; its hash is as long as a real one. */
function newCredential(parts: Partial<NewCredential> = {}): NewCredential {
  const number = String(++made)
  return {
    id: `credential-${number}`,
    kind: 'token',
    hash: number.padStart(64, '0'),
    name: 'ci',
    role: 'operator',
    account: null,
    scopes: null,
    forMs: null,
    ...parts,
  }
}

async function added(store: Store, parts: Partial<NewCredential> = {}): Promise<NewCredential> {
  const credential = newCredential(parts)
  assert.equal(await store.addCredential({ credential, by: OLGA }), 'added')
  return credential
}

async function addAccount(store: Store, name: string, email: string | null = null): Promise<void> {
  assert.equal(await store.addAccount({ name, email, by: OLGA }), 'added')
}

const isGood = async (store: Store, { hash }: NewCredential): Promise<boolean> =>
  (await store.credential({ hash })) !== null

async function stored(bench: Bench, { id, kind }: NewCredential): Promise<StoredCredential> {
  const found = (await bench.store.credentials({ kind, limit: 100, beforeKey: null })).find((one) => one.id === id)
  assert(found !== undefined, `credential ${id} is gone`)
  return found
}

const newSession = () => {
  const { id, hash } = newCredential()
  return { id, hash, kind: 'session' as const, forMs: DAY_MS }
}

const trail = async (bench: Bench, target: string) =>
  (await bench.store.auditTrail({ filter: { target }, beforeSeq: null, limit: 100 })).toReversed()

export const accounts = topic('accounts', {
  async 'an account is there from when it is added, under a name that no other gets, also after it was disabled'(
    bench,
  ) {
    const [store, other] = [bench.store, await bench.open()]
    const createdAtMs = bench.clock.nowMs()
    await addAccount(store, 'bob')
    await addAccount(other, 'ann', 'ann@example.com')
    assert.equal(await other.addAccount({ name: 'bob', email: null, by: OLGA }), 'taken')
    const ann = { name: 'ann', email: 'ann@example.com', createdAtMs, disabledAtMs: null }
    const bob = { name: 'bob', email: null, createdAtMs, disabledAtMs: null }
    assert.deepEqual(await store.accounts(), [ann, bob])
    await bench.clock.advance(5)
    assert.equal(await store.disableAccount({ name: 'bob', by: OLGA }), 'disabled')
    assert.deepEqual(await other.accounts(), [ann, { ...bob, disabledAtMs: createdAtMs + 5 }])
    assert.equal(await other.disableAccount({ name: 'bob', by: OLGA }), 'not-there')
    assert.equal(await other.disableAccount({ name: 'eve', by: OLGA }), 'not-there')
    assert.equal(await store.addAccount({ name: 'bob', email: null, by: OLGA }), 'taken')
  },

  async 'of any number who add an account of one name at once, one does'(bench) {
    const stores = await bench.openMany(4)
    const answers = await Promise.all(stores.map((store) => store.addAccount({ name: 'ann', email: null, by: OLGA })))
    assert.deepEqual(answers.toSorted(), ['added', 'taken', 'taken', 'taken'])
    assert.equal((await trail(bench, 'account')).length, 1)
  },

  async 'a credential is found by its hash in every process, with all that was said of it'(bench) {
    const [store, other] = [bench.store, await bench.open()]
    await addAccount(store, 'ann')
    const nowMs = bench.clock.nowMs()
    const token = await added(store, {
      role: 'owner',
      account: 'ann',
      scopes: ['jobs.*', 'batches.list'],
      forMs: DAY_MS,
    })
    const { hash: _, forMs: __, ...said } = token
    const found = await other.credential({ hash: token.hash })
    assert(found !== null)
    assert.deepEqual(found, {
      ...said,
      key: found.key,
      createdAtMs: nowMs,
      createdBy: 'olga',
      expiresAtMs: nowMs + DAY_MS,
      usedAtMs: null,
      revokedAtMs: null,
      nowMs,
    })
    assert.equal(await other.credential({ hash: token.id }), null)
    const plain = await added(store)
    assert.deepEqual((await other.credential({ hash: plain.hash }))?.scopes, null)
  },

  async 'what is read of credentials never has the hash in it'(bench) {
    const token = await added(bench.store)
    const read = [await bench.store.credential(token), await stored(bench, token), await trail(bench, 'token')]
    assert(!JSON.stringify(read).includes(token.hash))
  },

  async 'no credential is added for an account that is not there, or was disabled'(bench) {
    const { store } = bench
    const refused = async (account: string) => {
      const credential = newCredential({ role: 'owner', account })
      assert.equal(await store.addCredential({ credential, by: OLGA }), 'no-account')
      assert.equal(await isGood(store, credential), false)
    }
    await refused('ann')
    await addAccount(store, 'ann')
    await store.disableAccount({ name: 'ann', by: OLGA })
    await refused('ann')
    assert.deepEqual(await trail(bench, 'token'), [])
  },

  async 'a credential is good until its time is over, to the millisecond, by the clock of the store'(bench) {
    const short = await added(bench.store, { forMs: MINUTE_MS })
    const lasting = await added(bench.store, { forMs: null })
    await bench.clock.advance(MINUTE_MS - 1)
    assert.equal(await isGood(bench.store, short), true)
    await bench.clock.advance(1)
    assert.equal(await isGood(bench.store, short), false)
    await bench.clock.advance(3_650 * DAY_MS)
    assert.equal(await isGood(bench.store, lasting), true)
  },

  async 'what was revoked is good no longer in any process, and is revoked once'(bench) {
    const [store, other] = [bench.store, await bench.open()]
    const [token, kept] = [await added(store), await added(store)]
    assert.equal(await isGood(other, token), true)
    await bench.clock.advance(7)
    const answers = await Promise.all([store, other].map((one) => one.revokeCredential({ id: token.id, by: OLGA })))
    assert.deepEqual(answers.toSorted(), ['not-there', 'revoked'])
    for (const one of [store, other]) assert.equal(await isGood(one, token), false)
    assert.equal(await isGood(other, kept), true)
    assert.equal((await stored(bench, token)).revokedAtMs, bench.clock.nowMs())
    assert.equal(await store.revokeCredential({ id: 'credential-none', by: OLGA }), 'not-there')
  },

  async 'a disabled account ends all that it holds, at once and in every process, and nothing else'(bench) {
    const [store, other] = [bench.store, await bench.open()]
    await addAccount(store, 'ann')
    await addAccount(store, 'bob')
    const link = await added(store, { kind: 'link', account: 'ann' })
    const opening = await added(store, { kind: 'link', account: 'ann' })
    const session = newSession()
    assert.equal((await store.openSession({ linkHash: opening.hash, session }))?.account, 'ann')
    const token = await added(store, { role: 'owner', account: 'ann' })
    const others = [await added(store, { role: 'owner', account: 'bob' }), await added(store)]
    assert.equal(await store.disableAccount({ name: 'ann', by: OLGA }), 'disabled')
    for (const { hash } of [link, token, session]) assert.equal(await other.credential({ hash }), null)
    assert.equal(await other.openSession({ linkHash: link.hash, session: newSession() }), null)
    for (const one of others) assert.equal(await isGood(other, one), true)
  },

  async 'a link opens a session that is what the link was, and is then used up'(bench) {
    const { store } = bench
    await addAccount(store, 'ann')
    const link = await added(store, { kind: 'link', name: 'Ann', role: 'admin', account: 'ann', scopes: ['jobs.*'] })
    assert.equal(await isGood(store, link), true)
    await bench.clock.advance(3)
    const session = newSession()
    const opened = await store.openSession({ linkHash: link.hash, session })
    const { key: _, ...facts } = opened as StoredCredential
    const nowMs = bench.clock.nowMs()
    assert.deepEqual(facts, {
      ...{ id: session.id, kind: 'session', name: 'Ann', role: 'admin', account: 'ann', scopes: ['jobs.*'] },
      ...{ createdAtMs: nowMs, createdBy: 'olga', expiresAtMs: nowMs + DAY_MS, usedAtMs: null, revokedAtMs: null },
    })
    assert.equal((await store.credential({ hash: session.hash }))?.id, session.id)
    assert.equal(await isGood(store, link), false)
    assert.equal((await stored(bench, link)).usedAtMs, nowMs)
    assert.equal(await store.openSession({ linkHash: link.hash, session: newSession() }), null)
  },

  async 'of any number of processes that use one link at once, one gets a session'(bench) {
    const stores = await bench.openMany(4)
    const link = await added(bench.store, { kind: 'link', forMs: MINUTE_MS })
    const tries = [...stores, ...stores].map((store) => {
      const session = newSession()
      return { session, opened: store.openSession({ linkHash: link.hash, session }) }
    })
    const opened = await Promise.all(tries.map((one) => one.opened))
    assert.equal(opened.filter((one) => one !== null).length, 1)
    const good = await Promise.all(tries.map(({ session }) => bench.store.credential({ hash: session.hash })))
    assert.deepEqual(
      good.map((one) => one?.id),
      opened.map((one) => one?.id),
    )
    assert.equal((await trail(bench, 'session')).length, 1)
  },

  async 'nothing but a link that is good opens a session'(bench) {
    const { store } = bench
    const old = await added(store, { kind: 'link', forMs: MINUTE_MS })
    const revoked = await added(store, { kind: 'link' })
    const token = await added(store)
    await store.revokeCredential({ id: revoked.id, by: OLGA })
    await bench.clock.advance(MINUTE_MS)
    for (const { hash } of [old, revoked, token, newCredential()]) {
      const session = newSession()
      assert.equal(await store.openSession({ linkHash: hash, session }), null)
      assert.equal(await store.credential({ hash: session.hash }), null)
    }
    assert.equal(await isGood(store, token), true)
    assert.equal((await stored(bench, old)).usedAtMs, null)
  },

  async 'when it was last shown is kept to the minute'(bench) {
    const [store, other] = [bench.store, await bench.open()]
    const [token, idle] = [await added(store), await added(store)]
    const { key } = await stored(bench, token)
    const usedAtMs = async () => (await stored(bench, token)).usedAtMs
    const firstMs = bench.clock.nowMs()
    await store.markUsed({ keys: [key] })
    assert.equal(await usedAtMs(), firstMs)
    await bench.clock.advance(MINUTE_MS - 1)
    await other.markUsed({ keys: [key] })
    assert.equal(await usedAtMs(), firstMs)
    await bench.clock.advance(1)
    await Promise.all([store, other].map((one) => one.markUsed({ keys: [key, key, 999_999] })))
    assert.equal(await usedAtMs(), firstMs + MINUTE_MS)
    assert.equal((await stored(bench, idle)).usedAtMs, null)
    await store.markUsed({ keys: [] })
  },

  async 'a link is not used up by being marked'(bench) {
    const link = await added(bench.store, { kind: 'link' })
    await bench.store.markUsed({ keys: [(await stored(bench, link)).key] })
    assert.equal(await isGood(bench.store, link), true)
  },

  async 'credentials of a kind are listed with the newest first, page by page, also those that have ended'(bench) {
    const { store } = bench
    const tokens = [await added(store, { forMs: 1 }), await added(store), await added(store)]
    const link = await added(store, { kind: 'link' })
    await store.revokeCredential({ id: (tokens[1] as NewCredential).id, by: OLGA })
    await bench.clock.advance(10)
    const first = await store.credentials({ kind: 'token', limit: 2, beforeKey: null })
    const beforeKey = first.at(-1)?.key ?? null
    const rest = await store.credentials({ kind: 'token', limit: 2, beforeKey })
    assert.deepEqual(
      [...first, ...rest].map(({ id }) => id),
      tokens.map(({ id }) => id).toReversed(),
    )
    const links = await store.credentials({ kind: 'link', limit: 10, beforeKey: null })
    assert.deepEqual(
      links.map(({ id }) => id),
      [link.id],
    )
    const of = (parts: object) => store.credentials({ ...parts, limit: 10, beforeKey: null })
    assert.equal((await of({})).length, 4)
    assert.deepEqual(await of({ id: link.id }), links)
    assert.deepEqual(await of({ id: link.id, kind: 'token' }), [])
  },

  async 'what has ended is removed after its time, a bounded number at once, and what is good never'(bench) {
    const { store } = bench
    await addAccount(store, 'ann')
    const expired = await added(store, { forMs: 5 })
    const revoked = await added(store)
    await store.revokeCredential({ id: revoked.id, by: OLGA })
    const link = await added(store, { kind: 'link' })
    const session = newSession()
    await store.openSession({ linkHash: link.hash, session: { ...session, forMs: null } })
    const disabled = await added(store, { account: 'ann' })
    await store.disableAccount({ name: 'ann', by: OLGA })
    const good = [await added(store), await added(store, { forMs: 100 * DAY_MS })]
    await store.markUsed({ keys: [(await stored(bench, good[0] as NewCredential)).key] })
    const prune = (limit: number) => store.pruneCredentials({ deadForMs: 30 * DAY_MS, limit })

    await bench.clock.advance(30 * DAY_MS - 1)
    assert.equal(await prune(10), 0)
    await bench.clock.advance(1)
    assert.equal(await prune(2), 2)
    assert.equal(await prune(10), 1)
    assert.equal((await stored(bench, expired)).id, expired.id)
    await bench.clock.advance(5)
    assert.equal(await prune(10), 1)
    const left = await Promise.all(
      (['token', 'session', 'link'] as const).map((kind) => store.credentials({ kind, limit: 10, beforeKey: null })),
    )
    const ids = left.flat().map(({ id }) => id)
    assert.deepEqual(ids.toSorted(), [...good.map(({ id }) => id), session.id].toSorted())
    assert(!ids.includes(disabled.id))
    assert.equal((await store.accounts()).length, 1)
  },

  async 'each change is in the audit trail with who made it and why, and what was refused is not'(bench) {
    const { store } = bench
    const by = (actor: string, reason: string): ActorAndReason => ({ actor, reason })
    await store.addAccount({ name: 'ann', email: 'ann@example.com', by: by('olga', 'she is new') })
    await store.addAccount({ name: 'ann', email: null, by: by('olga', 'again') })
    const nowMs = bench.clock.nowMs()
    const link = newCredential({ kind: 'link', name: 'Ann', role: 'admin', account: 'ann', forMs: MINUTE_MS })
    await store.addCredential({ credential: link, by: by('olga', 'to sign in') })
    const session = newSession()
    await store.openSession({ linkHash: link.hash, session })
    await store.openSession({ linkHash: link.hash, session: newSession() })
    await store.revokeCredential({ id: session.id, by: by('ann', 'signed out') })
    await store.revokeCredential({ id: session.id, by: by('ann', 'again') })
    await store.disableAccount({ name: 'ann', by: by('olga', 'she left') })
    await store.disableAccount({ name: 'ann', by: by('olga', 'again') })
    const entries = await store.auditTrail({ filter: {}, beforeSeq: null, limit: 100 })
    const facts = { name: 'Ann', role: 'admin', account: 'ann', scopes: null }
    assert.deepEqual(
      entries.toReversed().map(({ act, actor, reason, target, ids, data }) => [act, actor, reason, target, ids, data]),
      [
        ['accounts.create', 'olga', 'she is new', 'account', ['ann'], { email: 'ann@example.com' }],
        ...[
          ['sign-in-links.create', 'olga', 'to sign in', link, { ...facts, expiresAtMs: nowMs + MINUTE_MS }] as const,
          [
            'sessions.create',
            'ann',
            `signed in with link ${link.id}`,
            session,
            { ...facts, expiresAtMs: nowMs + DAY_MS },
          ] as const,
          ['sessions.revoke', 'ann', 'signed out', session, { name: 'Ann' }] as const,
        ].map(([act, actor, reason, { kind, id }, data]) => [act, actor, reason, kind, [id], data]),
        ['accounts.disable', 'olga', 'she left', 'account', ['ann'], null],
      ],
    )
  },
})
