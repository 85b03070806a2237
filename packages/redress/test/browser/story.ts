import type { App, JobType } from 'redress'
import { exponential, failureCodes } from 'redress'
import type { TestKit } from 'redress/testing'
import { z } from 'zod'

/** What a job of the story is told to do. */
interface StoryInput {
  does?: 'succeed' | 'unreachable' | 'refuse' | 'break' | 'fill' | 'hang'
  host?: string
  file?: string
  note?: unknown
}

const told = z.looseObject({
  does: z.enum(['succeed', 'unreachable', 'refuse', 'break', 'fill', 'hang']).default('succeed'),
  host: z.string().default('converter.internal'),
})

const codes = failureCodes({
  GW_5XX: {
    fault: 'dependency',
    retry: 'transient',
    message: 'The converter answered 503.',
    waiting: 'The converter is busy; your file will be tried again.',
  },
  NOT_PDF: { fault: 'caller', retry: 'never', message: 'This file is not a PDF.' },
  DISK_FULL: { fault: 'system', retry: 'never', message: 'There was no room left to write the result.' },
})

/** A handler that does as its input says. */
function run(
  input: z.output<typeof told>,
  attempt: { fail(code: keyof typeof codes, about?: object): never },
): unknown {
  const { does, host } = input
  if (does === 'unreachable') return attempt.fail('GW_5XX', { detail: `${host} answered 503`, context: { host } })
  if (does === 'refuse') return attempt.fail('NOT_PDF', { detail: 'begins with "GIF89a"', context: { host } })
  if (does === 'fill') return attempt.fail('DISK_FULL', { detail: 'ENOSPC: no space left on device' })
  if (does === 'break') throw new TypeError(`Cannot read properties of undefined (reading 'width')`)
  if (does === 'hang') return new Promise(() => undefined)
  return { pages: 12, bytes: 48_210 }
}

/** The job types of a small company: each fails in its own way, and each policy answers otherwise. */
function declareStory(app: App): Record<'convert' | 'mail' | 'proxy' | 'thumb', JobType<StoryInput>> {
  const make = (name: string, options: object) =>
    app.job(name, { input: told, codes, run, ...options } as never) as unknown as JobType<StoryInput>
  const convert = make('pdf.convert', {
    queue: 'documents',
    policy: {
      retry: { max: 3, backoff: exponential('10s', { factor: 3 }) },
      manualRetry: 'in-place',
      orphan: 'requeue',
      breaker: { guards: 'converter', minCalls: 6, cooldown: '5m' },
      rollup: 'partial',
    },
  })
  const mail = make('mail.send', { queue: 'mail', policy: { deadLetter: 'queue', concurrency: 5 } })
  const proxy = make('proxy.make', {
    queue: 'proxies',
    policy: { aggregates: false, forwardOnly: true, orphan: 'report', cancel: false, lease: { ttl: '30s' } },
  })
  const thumb = make('thumb.render', { queue: 'media', policy: { manualRetry: 'in-place' } })
  app.schedule('nightly-report', { cron: '0 3 * * *', job: 'mail.send', input: {} })
  return { convert, mail, proxy, thumb }
}

const BY = { actor: 'olga', reason: 'the morning round' }

/** How long the story takes. */
export const STORY_MS = 78 * 60_000

/** A bad hour: afterwards every page has something to show. */
export async function tellStory(kit: TestKit): Promise<void> {
  const { app } = kit
  const { convert, mail, proxy, thumb } = declareStory(app)
  await app.perform('accounts.create', { name: 'ann', email: 'ann@example.org', actor: 'olga' })
  const run = async (jobs: readonly Promise<unknown>[]): Promise<void> => {
    await Promise.all(jobs)
    await kit.tick()
  }
  const many = <T>(n: number, make: (i: number) => Promise<T>): Promise<T>[] =>
    Array.from({ length: n }, (_, i) => make(i))

  await run(many(30, (i) => convert.submit({ file: `invoice-${i}.pdf` }, { owner: i % 3 === 0 ? 'ann' : 'bob' })))
  await kit.advance('30m')
  await run(many(6, (i) => mail.submit({ does: i < 4 ? 'refuse' : 'succeed', host: 'example.org' }, { owner: 'ann' })))
  await run(many(3, () => thumb.submit({ does: 'break' }, { owner: 'bob' })))
  await run([proxy.submit({ does: 'fill', file: 'A001_C003.mov' }), proxy.submit({ file: 'A001_C004.mov' })])
  await kit.advance('20m')

  const done = await app.batches.create('September statements', {
    owner: 'ann',
    jobs: [convert.request({}), convert.request({})],
  })
  await app.batches.create('October statements', {
    owner: 'ann',
    jobs: [convert.request({}), convert.request({ does: 'refuse' }), convert.request({}), convert.request({})],
  })
  await kit.tick()
  await kit.advance('20m')

  // The worker that has this one dies, and nobody knows how far it came.
  await proxy.submit({ does: 'hang', file: 'A001_C005.mov' }, { owner: 'ann' })
  const dying = await kit.crashingWorker({ at: 'run' })
  await dying.tick()
  await kit.advance('5m')

  await run(many(8, (i) => convert.submit({ does: 'unreachable', file: `scan-${i}.pdf` }, { owner: 'ann' })))
  await kit.advance('3m')
  await run(many(4, () => convert.submit({ file: 'waiting.pdf' }, { owner: 'bob' })))
  await app.perform('queues.pause', { name: 'media', ...BY })
  await thumb.submit({})
  const { groups } = await app.perform('failures.list', { code: 'NOT_PDF' })
  await app.perform('failures.snooze', { fingerprint: String(groups[0]?.fingerprint), for: '1h', ...BY })
  await app.perform('replays.plan', { type: 'mail.send', ...BY })
  await app.perform('jobs.list', { batch: done.id })
  await kit.tick()
}
