import { fork } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { parseArgs } from 'node:util'
import postgres from 'postgres'
import { HTTP_LIMITS, startServer } from 'redress/http'
import type { Visit, Visited } from './http/visitors.ts'
import { openBench } from './measures.ts'
import { postgresPlace, sqlitePlace } from './places.ts'

/**
 * `node --conditions=redress-source bench/catch-up.ts`: how long `/healthz` takes while streams catch up from the first event
 * of a large store, with the bound of `streamBehindMax` and without it. The visitors are in another process.
 */
const { values } = parseArgs({
  options: {
    store: { type: 'string', default: 'sqlite' },
    events: { type: 'string', default: '2000000' },
    streams: { type: 'string', default: '50' },
    seconds: { type: 'string', default: '10' },
    dir: { type: 'string', default: tmpdir() },
  },
})
const [events, streams, seconds] = [values.events, values.streams, values.seconds].map(Number) as [
  number,
  number,
  number,
]
const EVENTS_PER_JOB = 4
const jobs = Math.ceil(events / EVENTS_PER_JOB)

/** Jobs of other owners, each with its history. */
async function fill(store: string): Promise<void> {
  const kinds = "CASE e.n WHEN 0 THEN 'queued' WHEN 1 THEN 'processing' WHEN 2 THEN 'progress' ELSE 'complete' END"
  if (store.startsWith('sqlite:')) {
    const database = new DatabaseSync(store.slice('sqlite:'.length))
    const counted = (name: string, to: number) =>
      `${name}(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM ${name} WHERE n + 1 < ${to})`
    database.exec(`
      PRAGMA synchronous = OFF;
      WITH RECURSIVE ${counted('j', jobs)} INSERT INTO job_specs (id, type, payload, owner, created_at)
        SELECT 'job-' || n, (SELECT min(key) FROM job_types), '{"n":1}', 'owner-' || (n % 1000), 1700000000000 FROM j;
      WITH RECURSIVE ${counted('e', EVENTS_PER_JOB)} INSERT INTO events (job, at, kind, attempt)
        SELECT job_specs.key, 1700000000000, ${kinds}, 1 FROM job_specs CROSS JOIN e;
      PRAGMA wal_checkpoint(TRUNCATE);`)
    database.close()
    return
  }
  const sql = postgres(store, { max: 1, onnotice: () => undefined })
  await sql.unsafe(`
    INSERT INTO job_specs (id, type, payload, owner, created_at)
      SELECT 'job-' || n, (SELECT min(key) FROM job_types), '{"n":1}', 'owner-' || (n % 1000), 1700000000000
      FROM generate_series(1, ${jobs}) AS n`)
  await sql.unsafe(`
    INSERT INTO events (job, at, kind, attempt)
      SELECT job_specs.key, 1700000000000, ${kinds}, 1
      FROM job_specs CROSS JOIN generate_series(0, ${EVENTS_PER_JOB - 1}) AS e(n) ORDER BY job_specs.key, e.n`)
  await sql`ANALYZE`
  await sql.end()
}

const place = values.store === 'sqlite' ? sqlitePlace(values.dir) : await postgresPlace(values.dir, null)
const fresh = await place.fresh()
try {
  const { app } = await openBench(fresh.store)
  await app.store()
  process.stderr.write(`making ${events.toLocaleString('en-US')} events\n`)
  await fill(fresh.store)
  const tokens: Record<'owner' | 'viewer', string[]> = { owner: [], viewer: [] }
  for (let n = 0; n < streams; n++) {
    await app.perform('accounts.create', { name: `visitor-${n}`, actor: 'bench' })
    for (const role of ['owner', 'viewer'] as const) {
      const account = role === 'owner' ? { account: `visitor-${n}` } : {}
      const { token } = await app.perform('tokens.create', { name: `${role}-${n}`, role, ...account, actor: 'bench' })
      tokens[role].push(token as string)
    }
  }
  console.log(`\n${events.toLocaleString('en-US')} events, ${streams} streams with after=0, ${place.title}\n`)
  console.log(
    `${'GET /healthz, milliseconds'.padEnd(44)}${['p50', 'p99', 'max', 'asked'].map((n) => n.padStart(9)).join('')}`,
  )
  for (const [title, role, behindMax] of [
    ['no streams', null, HTTP_LIMITS.streamBehindMax],
    ['owners', 'owner', HTTP_LIMITS.streamBehindMax],
    ['viewers of everything', 'viewer', HTTP_LIMITS.streamBehindMax],
    ['owners, without the bound', 'owner', Number.MAX_SAFE_INTEGER],
    ['viewers of everything, without the bound', 'viewer', Number.MAX_SAFE_INTEGER],
  ] as const) {
    const limits = { streamBehindMax: behindMax, streamsPerAddressMax: streams, streamsPerCallerMax: streams }
    const server = await startServer({ app, port: 0, limits })
    await server.ready
    const child = fork(join(import.meta.dirname, 'http/visitors.ts'))
    const visit: Visit = { url: server.url, tokens: role === null ? [] : tokens[role], seconds }
    child.send(visit)
    const [{ tookMs, heard }] = (await once(child, 'message')) as [Visited]
    const sorted = tookMs.toSorted((a, b) => a - b)
    const at = (share: number) =>
      (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0).toFixed(1)
    const figures = [at(0.5), at(0.99), at(1), String(sorted.length)].map((figure) => figure.padStart(9)).join('')
    console.log(`${title.padEnd(44)}${figures}   ${heard.toLocaleString('en-US')} events heard`)
    child.kill()
    await once(child, 'exit')
    await server.stop({ graceMs: 0 })
  }
  await app.stop()
} finally {
  await fresh.remove()
  await place.stop()
}
