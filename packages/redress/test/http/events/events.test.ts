import { expect, test } from 'vitest'
import { until } from '../../../../../test/support/until.ts'
import { openRawConnection } from '../sockets.ts'
import { makeWorld } from '../world.ts'
import { listen } from './streams.ts'

const SCOPED = { name: 'narrow', role: 'viewer', expires: '1d' } as const

test('events are streamed on their topics to authorized subscribers with a reconnect delay [W34]', async () => {
  const world = await makeWorld()
  const all = await listen(world, 'viewer')
  const own = await listen(world, 'owner')
  const one = await listen(world, 'owner', `?topic=job:${world.jobs.ann.queued}&topic=batch:${world.batches.ann}`)
  expect([all.status, own.status, one.status, all.retryMs]).toEqual([200, 200, 200, 2_000])
  await world.app.submit('step', { fails: false }, { owner: 'bob' })
  await world.app.jobs.cancel(world.jobs.ann.queued, { actor: 'olga', reason: 'a test' })
  for (const stream of [all, own, one]) {
    expect((await stream.hear('job.cancelled')).data).toMatchObject({ jobId: world.jobs.ann.queued, owner: 'ann' })
  }
  expect(all.told.map(({ event }) => event)).toEqual(['job.queued', 'job.cancelled'])
  expect(own.told.map(({ event }) => event)).toEqual(['job.cancelled'])
})

test("an owner's stream carries no events of other owners, operators or batches [E20]", async () => {
  const world = await makeWorld()
  const { ask, jobs, batches, app } = world
  const refused: [topic: string, status: number][] = [
    [`job:${jobs.bob.failed}`, 404],
    [`job:${jobs.bob.forbidden}`, 403],
    [`batch:${batches.bob}`, 404],
    ['owner:bob', 403],
    ['*', 403],
    ['type:step', 403],
    [`log:${jobs.ann.queued}`, 403],
    ['queue:default', 403],
    ['breaker:gateway', 403],
    ['schedule:nightly', 403],
    ['campaign:9', 403],
  ]
  for (const [topic, status] of refused) {
    const path = `/api/events?topic=owner:ann&topic=${encodeURIComponent(topic)}`
    expect((await ask(path, { as: 'owner' })).status, topic).toBe(status)
  }
  expect(await ask('/api/events', { as: 'scoped' })).toMatchObject({ status: 403 })
  expect(await ask('/api/events', { as: 'stranger' })).toMatchObject({ status: 401 })
  expect(await ask('/api/events?topic=', { as: 'viewer' })).toMatchObject({ status: 400 })
  const batch = await app.batches.create('mixed', { owner: 'ann' })
  const heard = await listen(world, 'owner', `?topic=batch:${batch.id}`)
  await batch.add('step', { fails: false }, { owner: 'bob' })
  const own = await batch.add('step', { fails: false })
  await heard.hear('job.queued')
  expect(heard.told.map(({ data }) => data.jobId)).toEqual([own.id])
})

test('an app decides which owners may subscribe to its topics', async () => {
  const world = await makeWorld({
    mounts: [(_server, { letHear }) => letHear('campaign', ({ account }, name) => account === 'ann' && name === '9')],
  })
  world.app.hub.map((event) => (event.kind === 'queued' ? [{ topics: ['campaign:9'], event: 'begun', data: 1 }] : []))
  expect(await world.ask('/api/events?topic=campaign:10', { as: 'owner' })).toMatchObject({ status: 403 })
  expect(await world.ask('/api/events?topic=campaign:9', { as: 'bob' })).toMatchObject({ status: 403 })
  const heard = await listen(world, 'owner', '?topic=campaign:9')
  await world.app.submit('step', { fails: false }, { owner: 'bob' })
  expect(await heard.hear('begun')).toMatchObject({ data: 1 })
  expect(heard.told).toHaveLength(1)
})

test('a client that reconnects with its last id gets every event once', async () => {
  const world = await makeWorld()
  const first = await listen(world, 'viewer', '?topic=type:step')
  const submitted = [await world.app.submit('step', { fails: false })]
  const { id } = await first.hear('job.queued')
  first.leave()
  for (let n = 0; n < 3; n++) submitted.push(await world.app.submit('step', { fails: false }))
  for (const query of ['?topic=type:step', `?topic=type:step&after=${id}`]) {
    const headers: Record<string, string> = query.includes('after') ? {} : { 'last-event-id': String(id) }
    const again = await listen(world, 'viewer', query, headers)
    await until('the missed ones are told', () => again.told.length >= 3)
    expect(again.told.map(({ data }) => data.jobId)).toEqual(submitted.slice(1).map((one) => one.id))
    again.leave()
  }
  expect(await world.ask('/api/events', { as: 'viewer', headers: { 'last-event-id': 'x' } })).toMatchObject({
    status: 400,
  })
})

test('streams are limited per caller and in total, and closed ones free their place', async () => {
  const world = await makeWorld({ limits: { streamsPerCallerMax: 2, streamsMax: 3, topicsPerStreamMax: 2 } })
  const { ask } = world
  const own = [await listen(world, 'owner'), await listen(world, 'owner')]
  const third = await ask('/api/events', { as: 'owner' })
  expect([third.status, third.json.error.code, third.headers['retry-after']]).toEqual([429, 'TOO_MANY_REQUESTS', '10'])
  const other = await listen(world, 'viewer')
  expect(await ask('/api/events', { as: 'admin' })).toMatchObject({ status: 429 })
  own[0]?.leave()
  const now = await until('there is room again', async () => {
    const stream = await listen(world, 'owner')
    return stream.status === 200 && stream
  })
  for (const stream of [now, other, own[1]]) stream?.leave()
  await until('nobody listens', () => world.app.hub.subscribers === 0)
  expect(await ask('/api/events?topic=*&topic=a:b&topic=c:d', { as: 'viewer' })).toMatchObject({ status: 400 })
})

test('streams are limited per address, whatever the names of the callers', async () => {
  const world = await makeWorld({ trustProxy: true, limits: { streamsPerAddressMax: 2 } })
  const from = (...addresses: string[]) => ({ 'x-forwarded-for': addresses.join(', ') })
  const first = await listen(world, 'owner', '', from('203.0.113.9'))
  const second = await listen(world, 'bob', '', from('1.1.1.1', '203.0.113.9'))
  const third = await world.ask('/api/events', { as: 'viewer', headers: from('2.2.2.2', '203.0.113.9') })
  expect([first.status, second.status, third.status]).toEqual([200, 200, 429])
  expect(third.json.error.message).toBe('The address 203.0.113.9 has 2 streams open already; the limit is 2.')
  expect((await listen(world, 'viewer', '', from('203.0.113.10'))).status).toBe(200)
  first.leave()
  await until(
    'there is room again',
    async () => (await listen(world, 'viewer', '', from('203.0.113.9'))).status === 200,
  )
})

test('a stream that is too far behind gets a gap event, and then the events after it', async () => {
  const world = await makeWorld({ limits: { streamBehindMax: 10 } })
  await world.app.submitMany('step', Array(20).fill({ fails: false }))
  const lastSeq = await world.store.lastSeq()
  const stream = await listen(world, 'viewer', '?after=0')
  await until('it has caught up', () => stream.told.length >= 6)
  expect(stream.told[0]).toEqual({
    id: undefined,
    event: 'gap',
    data: { reason: 'behind', after: '0', to: String(lastSeq - 10) },
  })
  expect(stream.told.slice(1).map(({ id }) => id)).toEqual([8, 6, 4, 2, 0].map((n) => String(lastSeq - n)))
})

test('a client that disconnects while its stream opens leaks no subscription', async () => {
  const world = await makeWorld({ limits: { streamsPerCallerMax: 5 } })
  for (let n = 0; n < 50; n++) {
    const stream = listen(world, 'viewer')
    stream.catch(() => undefined)
    if (n % 2 === 0) (await stream).leave()
    else void stream.then((one) => one.leave())
    await until('it is gone', () => world.app.hub.subscribers <= 1)
  }
  await until('nobody listens', () => world.app.hub.subscribers === 0)
  expect((await listen(world, 'viewer')).status).toBe(200)
})

test('a client that does not read is disconnected, and others get every event', async () => {
  const world = await makeWorld({ limits: { quietMs: 1_000 } })
  const slow = await openRawConnection(world.server.url)
  slow.socket.write(
    `GET /api/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${world.tokens.viewer}\r\n\r\n`,
  )
  await until('it listens', () => slow.received().includes('retry:'))
  slow.socket.pause()
  const quick = await listen(world, 'admin')
  const note = 'x'.repeat(100)
  let submitted = 0
  // More than the sockets on the way can hold, and 1,000 events more.
  await until(
    'the slow one is let go',
    async () => {
      await world.app.submitMany(
        'step',
        Array.from({ length: 500 }, () => ({ fails: false, note })),
      )
      submitted += 500
      await until('the quick one has them', () => quick.told.length >= submitted)
      return world.app.hub.subscribers === 1
    },
    { withinMs: 50_000 },
  )
  expect(quick.told).toHaveLength(submitted)
  expect(new Set(quick.told.map(({ id }) => id)).size).toBe(submitted)
  expect(quick.isEnded()).toBe(false)
  // Whoever does not read is not told either; whoever writes to a connection that is gone notices.
  await until(
    'the slow one is hung up on',
    () => slow.socket.destroyed || (slow.socket.write('x') && slow.socket.destroyed),
    { everyMs: 3_000 },
  )
})

test('a revoked token ends its open streams', async () => {
  const world = await makeWorld({ limits: { streamCheckMs: 50 } })
  const { id, token } = await world.app.perform('tokens.create', { name: 'short', role: 'viewer', actor: 'olga' })
  const stream = await listen({ server: world.server, tokens: { ...world.tokens, viewer: String(token) } }, 'viewer')
  const other = await listen(world, 'owner')
  await world.app.perform('tokens.revoke', { id: String(id), actor: 'olga', reason: 'a test' })
  await stream.ended
  expect(stream.told.at(-1)).toMatchObject({ event: 'end' })
  expect(other.isEnded()).toBe(false)
})

test('a stopping server ends its streams with an end event', async () => {
  const world = await makeWorld()
  const stream = await listen(world, 'viewer')
  const startedMs = performance.now()
  await world.server.stop()
  await stream.ended
  expect(stream.told.at(-1)).toMatchObject({ event: 'end', data: { reason: 'stopped' } })
  expect(performance.now() - startedMs).toBeLessThan(5_000)
})

test('log lines reach operators and never an owner, whatever they subscribe to; progress reaches both', async () => {
  const world = await makeWorld()
  const { app, ask, tokens } = world
  const noted = await app.perform('tokens.create', { ...SCOPED, scopes: 'jobs.events,jobs.show', actor: 'olga' })
  tokens.scoped = noted.token ?? ''
  app.job('reporting', {
    run: (_: unknown, attempt) => {
      attempt.log('took 3 ms', { password: 'hunter2hunter2' })
      attempt.progress({ done: 1, total: 4, note: 'page 1' })
    },
  })
  const { id } = await app.submit('reporting', {}, { owner: 'ann' })
  const streams = {
    viewer: await listen(world, 'viewer'),
    own: await listen(world, 'owner', `?topic=owner:ann&topic=job:${id}`),
    scoped: await listen(world, 'scoped'),
    lines: await listen(world, 'viewer', `?topic=log:${id}`),
    gathered: await listen(world, 'viewer', '?every=250'),
  }
  await (await app.makeWorker()).tick()
  for (const name of ['viewer', 'own', 'scoped'] as const) {
    expect((await streams[name].hear('job.progress')).data).toMatchObject({
      progress: 0.25,
      done: 1,
      total: 4,
      note: 'page 1',
    })
    await streams[name].hear('job.complete')
  }
  const line = await streams.lines.hear('job.log')
  expect(line.data).toMatchObject({
    jobId: id,
    attempt: 1,
    line: 1,
    message: 'took 3 ms',
    fields: { password: '[redacted]' },
  })
  expect(streams.viewer.told.map(({ event }) => event)).toContain('job.log')
  for (const name of ['own', 'scoped'] as const)
    expect(streams[name].told.map(({ event }) => event)).not.toContain('job.log')
  await until('the gathered stream names the log and the job', () => {
    const subjects = streams.gathered.told.flatMap(({ data }) => data.subjects ?? [])
    return subjects.includes(`log:${id}`) && subjects.includes(`job:${id}`)
  })
  expect(await ask(`/api/events?topic=log:${id}`, { as: 'scoped' })).toMatchObject({ status: 403 })
  expect(await ask(`/api/jobs/${id}/logs`, { as: 'owner' })).toMatchObject({ status: 403 })
  expect((await ask(`/api/jobs/${id}`, { as: 'owner' })).json).toMatchObject({
    ...{ progressNote: 'page 1', progressDone: 1, progressTotal: 4, logs: { lines: [], count: 0, dropped: 0 } },
  })
  const shown = await ask(`/api/jobs/${id}/logs?tail=5`, { as: 'viewer' })
  expect(shown.json).toMatchObject({
    lines: [{ message: 'took 3 ms' }],
    attempts: [{ attempt: 1, lines: 1, dropped: 0 }],
  })
  expect((await ask(`/api/jobs/${id}`, { as: 'viewer' })).json.logs).toMatchObject({ count: 1, lines: [{ line: 1 }] })
})

test('a client that reconnects gets the log lines and the progress that it missed', async () => {
  const world = await makeWorld()
  const { app } = world
  app.job('reporting', {
    run: (_: unknown, attempt) => {
      attempt.log('one')
      attempt.log('two')
      attempt.progress(0.5)
    },
  })
  const first = await listen(world, 'viewer')
  const { id } = await app.submit('reporting', {})
  const seen = await first.hear('job.queued')
  first.leave()
  await (await app.makeWorker()).tick()
  const again = await listen(world, 'viewer', `?topic=job:${id}&topic=log:${id}`, { 'last-event-id': seen.id ?? '' })
  await again.hear('job.complete')
  expect(again.told.map(({ event }) => event)).toEqual([
    'job.processing',
    'job.log',
    'job.log',
    'job.progress',
    'job.complete',
  ])
})
