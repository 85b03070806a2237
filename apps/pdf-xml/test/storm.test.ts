import { expect, onTestFinished, test } from 'vitest'
import { did, size } from '../../../test/support/size.ts'
import { until } from '../../../test/support/until.ts'
import { choose, visit } from './convert-page.ts'
import { GatewayProcess, pdfSaying, Rig, type Shown, type Visitor } from './rig.ts'

const [SESSIONS, FILES_EACH] = [size(6, 20), 10]

test(`all ${SESSIONS * FILES_EACH} uploads of ${SESSIONS} sessions complete once while every second gateway call fails, and the page shows their true states`, async () => {
  const gateway = await GatewayProcess.start()
  onTestFinished(() => gateway.stop())
  // As in earnest, with every time a tenth of what it is there.
  const rig = await Rig.open({
    gatewayUrl: gateway.url,
    // All sessions have one address.
    env: {
      RETRY_BASE_DELAY_MS: '500',
      RETRY_JITTER_MAX_MS: '500',
      CIRCUIT_COOLDOWN_MS: '3000',
      VISITOR_CONCURRENCY: '10',
    },
  })
  await until('the probe is known', async () => (await breaker(rig)).probe.isDeclared)
  const page = await visit(rig)
  await gateway.faults({ status: 503, share: 0.5 })

  const files = await Promise.all(
    Array.from({ length: FILES_EACH }, async (_, i) => ({
      name: `own-${i}.pdf`,
      content: await pdfSaying(`own ${i}`),
    })),
  )
  await choose(page, ...files)
  const visitors = Array.from({ length: SESSIONS - 1 }, () => rig.visitor())
  const sent = Promise.all(visitors.map((visitor, number) => sendAll(visitor, number)))

  const seen: Seen[] = []
  let hasOpened = false
  await until('everything is over, and the page says so', async () => {
    seen.push((await page.evaluate(LOOK)) as Seen)
    if (!hasOpened && (await breaker(rig)).status === 'open') {
      hasOpened = true
      // From now on, and not from the beginning: on a busy machine, few calls would have met the fault by then.
      await gateway.faults({ status: 503, share: 0.5, forMs: 2_500 })
    }
    const { rows, banner } = seen.at(-1) as Seen
    return rows.length === FILES_EACH && rows.every(({ look }) => look === 'done') && banner === '' && seen.length
  })
  const ids = (await sent).flat()
  await until(
    'all are complete',
    async () => (await rig.app.perform('jobs.count', { status: 'complete' })).count === SESSIONS * FILES_EACH,
  )
  expect(ids).toHaveLength((SESSIONS - 1) * FILES_EACH)
  expect(rig.files('results')).toHaveLength(SESSIONS * FILES_EACH)

  expect(hasOpened).toBe(true)
  await until('the breaker has closed by itself', async () => (await breaker(rig)).status === 'closed')
  const { history } = await breaker(rig)
  expect(history.filter(({ actor }) => actor !== null)).toEqual([])

  did({ uploads: SESSIONS * FILES_EACH, breaker: history.map(({ kind }) => kind), looks: seen.length })
  const busy = seen.filter(({ banner }) => banner.includes('Converter busy'))
  expect(busy.length).toBeGreaterThan(0)
  const own = seen.at(-1)?.rows.map(({ id }) => id) ?? []
  for (const id of [...ids, ...own]) {
    const events = (await rig.app.jobs.events(id)).events
    expect(events.filter(({ kind }) => kind === 'complete')).toHaveLength(1)
    if (own.includes(id)) expectTruth(id, seen, events)
  }
})

interface Seen {
  atMs: number
  banner: string
  rows: { id: string; look: string }[]
}

const LOOK = `({
  atMs: Date.now(),
  banner: document.querySelector('#banner').textContent.trim(),
  rows: [...document.querySelectorAll('#rows .row')].map((row) => ({ id: row.id.slice(4), look: row.dataset.look })),
})`

const STATE_AFTER: Readonly<Record<string, string>> = {
  queued: 'waiting',
  processing: 'converting',
  retry: 'waiting',
  released: 'waiting',
  complete: 'done',
}

/** What the page showed of a job is what happened, in that order, and nothing before it had. */
function expectTruth(id: string, seen: readonly Seen[], events: Shown[]): void {
  const happened = events.flatMap(({ kind, at }) => {
    const state = STATE_AFTER[kind]
    return state === undefined ? [] : [{ state, atMs: Date.parse(at) }]
  })
  let reached = -1
  for (const { atMs, rows } of seen) {
    const look = rows.find((row) => row.id === id)?.look
    if (look === undefined) continue
    const state = look === 'paused' ? 'waiting' : look
    if (happened[reached]?.state === state) continue
    const next = happened.findIndex((step, i) => i > reached && step.state === state && step.atMs <= atMs)
    expect(next, `the page said ${look} of ${id}, after ${JSON.stringify(happened.slice(0, reached + 1))}`).not.toBe(-1)
    reached = next
  }
}

async function sendAll(visitor: Visitor, number: number): Promise<string[]> {
  const ids = [await visitor.uploaded(await pdfSaying(`${number} 0`))]
  const rest = Array.from({ length: FILES_EACH - 1 }, async (_, i) =>
    visitor.uploaded(await pdfSaying(`${number} ${i + 1}`)),
  )
  return [...ids, ...(await Promise.all(rest))]
}

const breaker = ({ app }: Rig) => app.perform('breakers.show', { name: 'gateway' })
