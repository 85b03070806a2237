import { openPostgresFloor } from '../floor-postgres.ts'
import { openSqliteFloor } from '../floor-sqlite.ts'
import { type HandlerName, idleLatency, openBench, prepareDrain, submitBulk, submitSingly } from '../measures.ts'
import { ALL, type Order, type System } from './system.ts'

/** Redress, and the bare SQL that makes the same transitions on the same tables. */

const CLAIMED_AT_ONCE = 500
const KINDS = {
  drain: ALL,
  'drain-default': ALL,
  'fail-once': ALL,
  submit: ALL,
  bulk: ALL,
  latency: ALL,
} as const

const urlOf = ({ given, address }: Order): string => (given.store === 'sqlite' ? `sqlite:${address}` : address)

async function runRedress(order: Order, failing: HandlerName): Promise<number[] | undefined> {
  const { given, jobs, meter } = order
  if (given.kind === 'latency') {
    return (await idleLatency(urlOf(order), jobs, (work) => meter.measure(work))).pickUpMs
  }
  const handler = given.kind === 'fail-once' ? failing : 'no-op'
  const { app, type } = await openBench(urlOf(order), handler, given.kind === 'drain-default')
  if (given.kind === 'bulk') await meter.measure(() => submitBulk(type, jobs))
  else if (given.kind === 'submit') await meter.measure(() => submitSingly(type, jobs, given.width))
  else {
    await submitBulk(type, jobs)
    await meter.measure(await prepareDrain(app, jobs, { concurrency: given.width }))
  }
  await app.stop()
  return undefined
}

async function runFloor({ given, address, jobs, meter }: Order): Promise<number[] | undefined> {
  const floor = await (given.store === 'sqlite' ? openSqliteFloor(address) : openPostgresFloor(address))
  const pickUpMs: number[] = []
  if (given.kind === 'bulk' || given.kind === 'submit') await meter.measure(() => floor.submit(jobs, given.width))
  else if (given.kind === 'latency') {
    await meter.measure(async () => {
      for (let n = 0; n < jobs; n++) pickUpMs.push((await floor.pickUp()).pickUpMs)
    })
  } else {
    const batch = given.kind === 'drain-default' ? given.width : CLAIMED_AT_ONCE
    await floor.submit(jobs, CLAIMED_AT_ONCE)
    await meter.measure(() => floor.drain(jobs, { batch, failsOnce: given.kind === 'fail-once' }))
  }
  await floor.close()
  return given.kind === 'latency' ? pickUpMs : undefined
}

const IDEMPOTENT =
  '`orphan: requeue`, which lets a worker claim ahead of its slots; default policy where the case says so'

export const OWN: readonly System[] = (['postgres', 'sqlite'] as const).flatMap((backend): System[] => [
  {
    id: 'redress',
    title: 'Redress',
    settings: IDEMPOTENT,
    backend,
    kinds: KINDS,
    run: (order) => runRedress(order, 'fails once, thrown'),
  },
  {
    id: 'redress-declared',
    title: 'Redress, declared failures',
    settings: 'the handler fails with a declared code and does not throw an error of its own',
    backend,
    kinds: { 'fail-once': ALL },
    run: (order) => runRedress(order, 'fails once, declared'),
  },
  {
    id: 'floor',
    title: 'bare SQL (floor)',
    settings: `no queue: the same transitions on the tables of Redress, ${CLAIMED_AT_ONCE} jobs per statement`,
    backend,
    kinds: KINDS,
    run: runFloor,
  },
])
