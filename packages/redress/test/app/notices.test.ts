import { describe, expect, onTestFinished, test } from 'vitest'
import { App } from '../../src/app/app.ts'
import type { Channel, Delivered } from '../../src/app/channels.ts'
import type { Notice } from '../../src/core/notice/notice.ts'
import type { PolicyInput } from '../../src/core/policy/policy.ts'
import { type TestKit, testKit } from '../../src/testing/kit.ts'

/** Keeps what it was told, and answers as the test says. */
function keepingChannel(answer: (notice: Notice, attempt: number) => Delivered | undefined = () => undefined) {
  const heard: { id: string; attempt: number; notice: Notice; only: readonly string[] | null }[] = []
  const channel: Channel = {
    kind: 'kept',
    deliver(notice, { id, attempt, only }) {
      heard.push({ id, attempt, notice, only })
      return answer(notice, attempt) ?? { to: ['somebody'], answer: 'heard' }
    },
  }
  return { channel, heard }
}

const NOTIFY: PolicyInput = { notify: { failed: ['ops'], orphaned: ['ops'], window: '1h' } }

function kitWith(policy: PolicyInput = NOTIFY): TestKit {
  const kit = testKit()
  onTestFinished(() => kit.stop())
  kit.app.job('work', {
    policy,
    run: ({ say = 'broken' }: { say?: string }) => {
      if (say === 'fine') return 'done'
      if (say === 'other') throw new TypeError('another trouble')
      throw new Error('the work is broken')
    },
  })
  return kit
}

const listed = async (app: App) => (await app.perform('notices.list', {})).notices
const delivered = async (app: App) => (await app.perform('notices.deliveries', {})).deliveries

describe('a failed job causes a notice', () => {
  test('once it has failed for good, with what a person needs and not its input', async () => {
    const kit = kitWith({ ...NOTIFY, retry: { max: 2, unknown: 'transient', backoff: { table: ['1m'] } } })
    const { channel, heard } = keepingChannel()
    kit.app.channel('ops', channel)
    const { id } = await kit.app.submit('work', { secretive: 'payload-marker' }, { owner: 'ann' })
    await kit.tick()
    expect(heard).toEqual([])
    await kit.drain()
    expect(heard).toHaveLength(1)
    expect(heard[0]?.notice).toMatchObject({
      kind: 'failed',
      job: { id, type: 'work', owner: 'ann', attempts: 2, maxAttempts: 2 },
      failure: { code: 'UNKNOWN', fault: 'unknown', phase: 'execution' },
      repeats: 0,
      since: null,
    })
    expect(JSON.stringify(heard)).not.toContain('payload-marker')
    expect(JSON.stringify(heard)).not.toContain('the work is broken')
    const [delivery] = await delivered(kit.app)
    expect(delivery).toMatchObject({
      id: heard[0]?.id,
      channel: 'ops',
      state: 'sent',
      to: ['somebody'],
      answer: 'heard',
    })
  })

  test('a job that succeeds causes no notice', async () => {
    const kit = kitWith()
    const { channel, heard } = keepingChannel()
    kit.app.channel('ops', channel)
    await kit.app.submit('work', { say: 'fine' })
    await kit.drain()
    expect([heard, await listed(kit.app)]).toEqual([[], []])
  })

  test('also one that was refused at submission and recorded, and one that a person marked as failed', async () => {
    const kit = testKit()
    onTestFinished(() => kit.stop())
    const policy: PolicyInput = { ...NOTIFY, reject: 'record' }
    const admit = () => {
      throw new Error('not like this')
    }
    kit.app.job('refused', { policy, admit, run: () => undefined })
    kit.app.job('marked', { policy, run: () => undefined })
    const { channel, heard } = keepingChannel()
    kit.app.channel('ops', channel)
    const { id: refused } = await kit.app.submit('refused', {})
    const { id: marked } = await kit.app.submit('marked', {}, { delay: '1h' })
    await kit.app.jobs.markFailed(marked, { actor: 'olga', reason: 'a private remark' })
    await kit.tick()
    const told = heard.map(({ notice }) => notice.kind === 'failed' && [notice.job.id, notice.failure.code])
    expect(told).toEqual([
      [refused, 'UNKNOWN'],
      [marked, 'MARKED_FAILED'],
    ])
    expect(JSON.stringify(heard)).not.toContain('a private remark')
  })

  test('an orphan causes a notice when it is reported, and stays as it is', async () => {
    const kit = kitWith()
    const { channel, heard } = keepingChannel()
    kit.app.channel('ops', channel)
    await kit.crashingWorker({ at: 'run' })
    const { id } = await kit.app.submit('work', {})
    await kit.advance('2m')
    expect(heard.map(({ notice }) => notice)).toMatchObject([
      { kind: 'orphaned', job: { id, actions: [{ name: 'mark-failed' }] }, worker: 'crashing-worker-1' },
    ])
    expect(await kit.app.jobs.find(id)).toMatchObject({ status: 'processing' })
    await kit.advance('1h')
    expect(heard).toHaveLength(1)
  })
})

describe('one notice per cause is sent in each window', () => {
  test('the rest is counted, and the next notice after the window says how many', async () => {
    const kit = kitWith()
    const { channel, heard } = keepingChannel()
    kit.app.channel('ops', channel)
    const start = kit.clock.nowMs()
    for (let i = 0; i < 4; i++) {
      await kit.app.submit('work', {})
      await kit.advance('10m')
    }
    expect(heard).toHaveLength(1)
    expect(await listed(kit.app)).toMatchObject([{ state: 'relayed', repeats: 3, repeatsTold: 0 }])
    await kit.advance('20m')
    await kit.app.submit('work', {})
    await kit.tick()
    expect(heard.map(({ notice }) => notice)).toMatchObject([
      { repeats: 0, since: null },
      { repeats: 3, since: new Date(start).toISOString() },
    ])
    expect(await listed(kit.app)).toMatchObject([{ repeats: 0, repeatsTold: 3 }, { repeats: 3 }])
  })

  test('another cause, another owner and another set of channels get their own notices', async () => {
    const kit = kitWith()
    kit.app.job('elsewhere', {
      policy: { notify: { failed: ['ops', 'more'] } },
      run: () => Promise.reject(new Error('x')),
    })
    const { channel, heard } = keepingChannel()
    kit.app.channel('ops', channel)
    kit.app.channel('more', channel)
    await kit.app.submit('work', {})
    await kit.app.submit('work', { say: 'other' })
    await kit.app.submit('work', {}, { owner: 'ann' })
    await kit.app.submit('work', {}, { owner: 'bob' })
    await kit.app.submit('work', {}, { owner: 'bob' })
    await kit.app.submit('elsewhere', {})
    await kit.drain()
    expect(heard).toHaveLength(6)
  })

  test('without a window each failure gets its own notice', async () => {
    const kit = kitWith({ notify: { failed: ['ops'], window: 0 }, aggregates: false })
    const { channel, heard } = keepingChannel()
    kit.app.channel('ops', channel)
    await kit.app.submitMany('work', [{}, {}, {}])
    await kit.drain()
    expect(heard.map(({ notice }) => notice.repeats)).toEqual([0, 0, 0])
  })
})

describe('from the outbox to a channel', () => {
  test('a notice waits for a process that has the channel, and says why', async () => {
    const kit = kitWith({ notify: { failed: ['ops', 'owner'] } })
    const ops = keepingChannel()
    kit.app.channel('ops', ops.channel)
    await kit.app.submit('work', {})
    await kit.drain()
    expect(ops.heard).toHaveLength(1)
    const why = 'no program has declared the channel owner'
    const { notices } = await kit.app.perform('notices.list', { waiting: true })
    expect(notices).toMatchObject([{ state: 'waiting', relayedAt: null, waiting: [{ channel: 'owner', why }] }])
    const owner = keepingChannel()
    kit.app.channel('owner', owner.channel)
    await kit.drain()
    expect(owner.heard.map(({ notice }) => notice)).toEqual(ops.heard.map(({ notice }) => notice))
    expect(owner.heard[0]?.id).not.toBe(ops.heard[0]?.id)
    expect(ops.heard).toHaveLength(1)
    expect(await listed(kit.app)).toMatchObject([{ state: 'relayed', waiting: [] }])
  })

  test('a delivery that fails is tried again under the same id, and its failure is in the log', async () => {
    const kit = kitWith()
    const { channel, heard } = keepingChannel((_, attempt) => {
      if (attempt < 3) throw new Error('the line is dead')
      return undefined
    })
    kit.app.channel('ops', channel)
    await kit.app.submit('work', {})
    await kit.tick()
    expect(await delivered(kit.app)).toMatchObject([
      { state: 'waiting', attempts: 1, maxAttempts: 6, error: { code: 'UNKNOWN' }, sentAt: null },
    ])
    await kit.drain()
    expect(heard.map(({ attempt }) => attempt)).toEqual([1, 2, 3])
    expect(new Set(heard.map(({ id }) => id)).size).toBe(1)
    expect(await delivered(kit.app)).toMatchObject([{ state: 'sent', attempts: 3, error: null }])
  })

  test('a delivery that fails for good is kept and shown, can be sent again, and causes no notice', async () => {
    const kit = kitWith()
    let isDown = true
    const { channel, heard } = keepingChannel(() => {
      if (isDown) throw new Error('the line is dead')
      return undefined
    })
    kit.app.channel('ops', channel)
    await kit.app.submit('work', {})
    await kit.drain()
    expect(heard).toHaveLength(6)
    const [failed] = await delivered(kit.app)
    expect(failed).toMatchObject({ state: 'failed', attempts: 6, error: { code: 'UNKNOWN' } })
    expect(await listed(kit.app)).toHaveLength(1)
    isDown = false
    await kit.app.jobs.retry(String(failed?.id), { actor: 'olga', reason: 'the line is back' })
    await kit.drain()
    expect(heard).toHaveLength(7)
    expect(new Set(heard.map(({ id }) => id)).size).toBe(1)
    expect(await delivered(kit.app)).toMatchObject([{ state: 'sent' }])
  })

  test('deferred recipients are tried again without those that were reached', async () => {
    const kit = kitWith()
    const { channel, heard } = keepingChannel((_, __) =>
      heard.length === 1
        ? { to: ['a'], answer: 'ok', later: ['b'], refused: [{ to: 'c', answer: 'unknown here' }] }
        : undefined,
    )
    kit.app.channel('ops', channel)
    await kit.app.submit('work', {})
    await kit.drain()
    expect(heard.map(({ only }) => only)).toEqual([null, ['b']])
    expect(heard[1]?.id).toBe(heard[0]?.id)
    const [rest, first] = await delivered(kit.app)
    expect(first).toMatchObject({
      state: 'sent',
      to: ['a'],
      later: { to: ['b'], id: rest?.id },
      refused: [{ to: 'c', answer: 'unknown here' }],
    })
    expect(rest).toMatchObject({ state: 'sent', to: ['somebody'] })
  })

  test('notices that were relayed long ago are removed', async () => {
    const kit = kitWith()
    kit.app.channel('ops', keepingChannel().channel)
    await kit.app.submit('work', {})
    await kit.drain()
    await kit.advance('29d')
    expect(await listed(kit.app)).toHaveLength(1)
    await kit.advance('2d')
    await kit.tick()
    expect(await listed(kit.app)).toEqual([])
  })
})

describe('an app tells things of its own', () => {
  test('by the same way, each or once per window', async () => {
    const kit = kitWith()
    const { channel, heard } = keepingChannel()
    kit.app.channel('owner', channel)
    const news = { channels: ['owner'], subject: 'Spring is ready', data: { account: 7 } }
    expect(await kit.app.notify('campaign.ready', news)).toMatchObject({ isNew: true })
    expect(await kit.app.notify('campaign.ready', news)).toMatchObject({ isNew: true })
    expect(await kit.app.notify('campaign.ready', { ...news, cause: 'spring' })).toMatchObject({ isNew: true })
    expect(await kit.app.notify('campaign.ready', { ...news, cause: 'spring' })).toMatchObject({ isNew: false })
    await kit.drain()
    expect(heard).toHaveLength(3)
    expect(heard[0]?.notice).toMatchObject({
      kind: 'app',
      name: 'campaign.ready',
      ...{ subject: news.subject, data: news.data },
    })
  })

  test.each([
    ['kind', 'failed', {}],
    ['kind', 'two words', {}],
    ['channels', 'k', { channels: [] }],
    ['channel', 'k', { channels: ['a b'] }],
    ['subject', 'k', { subject: ' ' }],
    ['window', 'k', { window: '1h' }],
    ['JSON', 'k', { data: 1n }],
    ['bytes', 'k', { data: 'x'.repeat(300_000) }],
  ])('and is told what is wrong with its %s', async (word, kind, parts) => {
    const kit = kitWith()
    await expect(kit.app.notify(kind, { channels: ['owner'], subject: 's', ...parts })).rejects.toThrow(word)
    expect(await listed(kit.app)).toEqual([])
  })
})

describe('the engine keeps its own job types for itself', () => {
  test('an app cannot declare or submit one', async () => {
    const kit = kitWith()
    kit.app.channel('ops', keepingChannel().channel)
    expect(() => kit.app.job('redress.mine', { run: () => undefined })).toThrow('kept for the engine')
    await expect(kit.app.submit('redress.notify.ops', {})).rejects.toThrow('kept for the engine')
    expect(kit.app.describe('redress.notify.ops')?.policy.notify).toMatchObject({
      failed: [],
      orphaned: [],
      settled: [],
    })
  })

  test('a channel needs a name, a way to deliver, and to be the only one of its name', () => {
    const app = new App({ store: 'sqlite::memory:' })
    expect(() => app.channel('no good', keepingChannel().channel)).toThrow('not a name for a channel')
    expect(() => app.channel('ops', {} as never)).toThrow('deliver')
    app.channel('ops', keepingChannel().channel)
    expect(() => app.channel('ops', keepingChannel().channel)).toThrow('declared already')
  })
})

describe('a person tests a channel', () => {
  test('with a name and a reason, which are kept and told', async () => {
    const kit = kitWith()
    const { channel, heard } = keepingChannel()
    kit.app.channel('ops', channel)
    const by = { actor: 'olga', reason: 'is it on?' }
    const dry = await kit.app.perform('notices.test', { channel: 'ops', ...by, dryRun: true })
    expect(dry).toMatchObject({ isDone: false, notice: null })
    expect(await kit.app.perform('notices.test', { channel: 'ops', ...by })).toMatchObject({ isDone: true, notice: 1 })
    await kit.drain()
    expect(heard.map(({ notice }) => notice)).toMatchObject([{ kind: 'test', ...by }])
    const { entries } = (await kit.app.perform('audit.list', {})) as unknown as { entries: object[] }
    expect(entries).toMatchObject([{ act: 'notices.test', ...by }])
  })

  test('not without them, and not one that nobody has', async () => {
    const kit = kitWith()
    kit.app.channel('ops', keepingChannel().channel)
    await expect(kit.app.perform('notices.test', { channel: 'ops', actor: 'olga' })).rejects.toThrow(
      'A reason is required',
    )
    const unknown = kit.app.perform('notices.test', { channel: 'sms', actor: 'olga', reason: 'r' })
    await expect(unknown).rejects.toMatchObject({ code: 'CHANNEL_UNKNOWN' })
  })
})
