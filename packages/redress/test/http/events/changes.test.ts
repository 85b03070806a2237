import { expect, test } from 'vitest'
import { until } from '../../../../../test/support/until.ts'
import type { HubEvent } from '../../../src/app/events/hub-events.ts'
import { type Changes, collectChanges } from '../../../src/http/events/changes.ts'
import { makeWorld } from '../world.ts'
import { listen } from './streams.ts'

const job = (n: number, kind = 'complete'): HubEvent => ({
  id: String(n),
  topics: [`job:${n}`, 'type:step', 'queue:default', 'owner:ann'],
  event: `job.${kind}`,
  data: {},
})

/** A line of events that a test fills. */
function line(...events: readonly HubEvent[]) {
  const waiting = [...events]
  let wake: (() => void) | null = null
  let isEnded = false
  return {
    put: (...more: readonly HubEvent[]) => {
      waiting.push(...more)
      wake?.()
    },
    end: () => {
      isEnded = true
      wake?.()
    },
    async next(): Promise<IteratorResult<HubEvent>> {
      while (waiting.length === 0) {
        if (isEnded) return { done: true, value: undefined }
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      }
      return { done: false, value: waiting.shift() as HubEvent }
    },
    takeWaiting: () => waiting.splice(0, waiting.findLastIndex(({ event }) => event !== 'end') + 1),
  }
}

const changesOf = ({ value }: IteratorResult<HubEvent>): Changes => value.data as Changes

test('the first change is sent at once, and later ones are collected', async () => {
  const source = line(job(1))
  const heard = collectChanges(source, 250)
  expect(await heard.next()).toMatchObject({ value: { id: '1', event: 'changes' } })
  const next = heard.next()
  source.put(job(2), job(3, 'failed'), job(3, 'retry'))
  const told = await next
  expect(told.value.id).toBe('3')
  expect(changesOf(told)).toEqual({
    events: { 'job.complete': 1, 'job.failed': 1, 'job.retry': 1 },
    subjects: ['job:2', 'job:3'],
    types: ['step'],
    isMore: false,
  })
})

test('changes of a retry are reported for its original job too', async () => {
  const retry = { ...job(8, 'queued'), data: { retriedFrom: '7' } }
  const heard = collectChanges(line(retry), 250)
  expect(changesOf(await heard.next()).subjects).toEqual(['job:8', 'job:7'])
})

test('a message lists a bounded number of subjects and says if there are more', async () => {
  const source = line(job(0))
  const heard = collectChanges(source, 250)
  await heard.next()
  const next = heard.next()
  source.put(...Array.from({ length: 5_000 }, (_, i) => job(i + 1)))
  const changes = changesOf(await next)
  expect(changes).toMatchObject({ events: { 'job.complete': 5_000 }, isMore: true })
  expect(changes.subjects).toHaveLength(200)
})

test('a gap is reported as unknown changes', async () => {
  const gap: HubEvent = { id: null, topics: [], event: 'gap', data: { reason: 'removed' } }
  expect(changesOf(await collectChanges(line(gap), 250).next())).toMatchObject({ isMore: true })
})

test('collected changes are sent before the end event', async () => {
  const source = line(job(1))
  const heard = collectChanges(source, 60_000)
  await heard.next()
  const next = heard.next()
  source.put(job(2), { id: null, topics: [], event: 'end', data: { reason: 'stopped' } })
  expect(changesOf(await next).subjects).toEqual(['job:2'])
  expect((await heard.next()).value).toMatchObject({ event: 'end', data: { reason: 'stopped' } })
  expect(await heard.next()).toEqual({ done: true, value: undefined })
  source.end()
  expect(await collectChanges(source, 250).next()).toEqual({ done: true, value: undefined })
})

test('a burst of events does not disconnect a page', async () => {
  const world = await makeWorld()
  const heard = await listen(world, 'viewer', '?every=250')
  const before = heard.told.length
  const jobs = Array.from({ length: 3_000 }, () => ({ fails: false }))
  await world.app.submitMany('step', jobs)
  await until('all are counted', () => {
    const counts = heard.told.slice(before).map(({ data }) => (data as Changes).events?.['job.queued'] ?? 0)
    return counts.reduce((sum, n) => sum + n, 0) >= jobs.length
  })
  expect(heard.told.map(({ event }) => event)).not.toContain('end')
})

test('a pause is a change of the queue, an ended job is not', async () => {
  const paused: HubEvent = { id: '9', topics: ['queue:default'], event: 'queue.paused', data: {} }
  expect(changesOf(await collectChanges(line(paused), 250).next()).subjects).toEqual(['queue:default'])
  expect(changesOf(await collectChanges(line(job(1)), 250).next()).subjects).toEqual(['job:1'])
})

test('an owner gets changes of their own jobs and resumes after a reconnect', async () => {
  const world = await makeWorld()
  const own = await listen(world, 'owner', '?every=250')
  await world.app.submit('step', { fails: false }, { owner: 'bob' })
  const { id } = await world.app.submit('step', { fails: false }, { owner: 'ann' })
  const told = await own.hear('changes')
  expect(told.data).toMatchObject({ events: { 'job.queued': 1 }, subjects: [`job:${id}`] })
  const later = await world.app.submit('step', { fails: false }, { owner: 'ann' })
  const again = await listen(world, 'owner', `?every=250&after=${told.id}`)
  await until('the second is told, too', () =>
    again.told.some(({ data }) => (data as unknown as Changes).subjects.includes(`job:${later.id}`)),
  )
})

test('an invalid `every` is refused', async () => {
  const world = await makeWorld()
  for (const every of ['0', '100', 'x', '60001', '250.5']) {
    const answer = await world.ask(`/api/events?every=${every}`, { as: 'viewer' })
    expect([answer.status, answer.json.error.code], every).toEqual([400, 'REQUEST_INVALID'])
  }
})
