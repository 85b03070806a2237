import { failureCodes } from '../../../packages/redress/src/index.ts'
import { openSqlite } from '../../../packages/redress/src/store/sqlite/store.ts'
import { testKit } from '../../../packages/redress/src/testing/kit.ts'

const WHO = { actor: 'ann', reason: 'a test' }

const codes = failureCodes({
  GW_5XX: { fault: 'dependency', retry: 'transient', message: 'The gateway failed.', waiting: 'We will retry.' },
  REFUSED: { fault: 'caller', retry: 'never', message: 'It was refused.' },
})

/** A store file in which every table has something, made by real work in virtual time. */
export async function fillStore(path: string, { jobs = 3 }: { jobs?: number } = {}): Promise<void> {
  const kit = testKit({ store: ({ nowMs }) => openSqlite({ path, nowMs }) })
  const { app } = kit
  const fine = app.job('fine', {
    policy: { rate: { max: 100, per: '1s' } },
    run: ({ n }: { n: number }, attempt) => {
      attempt.log('counted', { n })
      attempt.progress({ done: n, total: 10, note: `number ${n}` })
      return { n }
    },
  })
  app.job('letter', {
    codes,
    queue: 'post',
    policy: { deadLetter: 'queue', notify: { failed: ['ops', 'nobody'], orphaned: [], window: '1h' } },
    run: (_input: object, attempt) =>
      attempt.fail('REFUSED', { detail: 'a tab\t, a newline\n, a \\ and "quotes" é 🎈' }),
  })
  app.job('guarded', {
    codes,
    policy: { retry: { max: 2 }, breaker: { guards: 'gateway', minCalls: 4, windowCalls: 8 } },
    run: (_input: object, attempt) => attempt.fail('GW_5XX'),
  })
  app.job('trusted', { policy: { breaker: { guards: 'bank' } }, run: () => 'paid' })
  app.job('hang', { policy: { lease: { ttl: '1m' } }, run: () => new Promise(() => undefined) })
  app.channel('ops', { kind: 'kept', deliver: () => ({ to: ['somebody'], answer: 'heard' }) })
  app.schedule('nightly', { cron: '0 3 * * *', timezone: 'Europe/Berlin', job: fine, input: { n: 0 } })
  await app.batches.create('several', { jobs: [fine.request({ n: 1 }), fine.request({ n: 2 })] })
  await app.submitMany('letter', [{ n: 1 }, { n: 2 }, { n: 3 }], { owner: 'ann' })
  await app.submitMany('guarded', Array(6).fill({}))
  await kit.tick()
  await kit.tick()
  await kit.advance('1d')
  const { replay } = await app.replays.plan({ type: 'letter', ...WHO })
  await app.replays.start(replay?.id ?? '', WHO)
  await kit.advance('5s')
  // The newest one is gone, and its number must not come back.
  await app.submit('letter', { n: 4 })
  await kit.tick()
  const { deadLetters } = await app.deadLetters.list({ limit: 100 })
  await app.perform('dead-letters.purge', { ...WHO, offset: deadLetters.at(-1)?.offset ?? 0 })
  await app.perform('queues.pause', { ...WHO, name: 'post' })
  await app.submitMany('guarded', Array(6).fill({}))
  await kit.tick()
  await kit.advance('1s')
  await app.perform('failures.list', {})
  await fine.submit({ n: 5 }, { debounce: { key: 'a', wait: '2h' }, ttl: '1d' })
  await app.submit('hang', {})
  await app.submitMany('trusted', [{}, {}])
  await kit.tick()
  await kit.advance('1s')
  await fine.submitMany(
    Array.from({ length: jobs }, (_, n) => ({ n })),
    { delay: '1h' },
  )
  await app.perform('accounts.create', { name: 'ann', email: 'ann@example.com', ...WHO })
  await app.perform('tokens.create', { name: 'ci', role: 'owner', account: 'ann', scopes: ['jobs.*'], ...WHO })
  await app.perform('sign-in-links.create', WHO)
  await app.submit('fine', { n: 9 }, { dedupe: 'once', priority: 3 })
  await kit.stop()
}
