import { DatabaseSync } from 'node:sqlite'
import { redress } from 'redress'

/**
 * The bare floor: the same transitions on the same tables, written by hand as SQL in batches, with no handlers, leases
 * to renew, timers or decisions. What Redress adds on top is the difference.
 */
const BATCH = 500
const TYPE = 'floor.noop'

export interface Floor {
  submitted: number
  drained: number
}

/** Jobs per second. `failsOnce` sends every job back to the queue once, with its failure record. */
export async function measureFloor(path: string, jobs: number, failsOnce: boolean): Promise<Floor> {
  // The tables are made by Redress itself, so that both write the same rows, indexes and checks.
  const app = redress({ store: `sqlite:${path}` })
  app.job(TYPE, { run: () => undefined })
  await app.store()
  await app.stop()
  const database = new DatabaseSync(path)
  database.exec('PRAGMA synchronous = FULL; PRAGMA cache_size = -65536')
  try {
    const submitted = submitAll(database, jobs)
    const drained = drainAll(database, jobs, failsOnce)
    return { submitted, drained }
  } finally {
    database.close()
  }
}

function submitAll(database: DatabaseSync, jobs: number): number {
  const addSpec = database.prepare('INSERT INTO job_specs (id, type, payload, created_at) VALUES (?, 1, ?, ?)')
  const addJob = database.prepare(`
    INSERT INTO jobs (key, type, status, priority, queued_at, ready, forward_only) VALUES (?, 1, 'queued', 0, ?, 1, 0)`)
  const addEvent = database.prepare(`INSERT INTO events (job, at, kind, attempt) VALUES (?, ?, 'queued', 0)`)
  const beganMs = performance.now()
  for (let n = 0; n < jobs; ) {
    database.exec('BEGIN IMMEDIATE')
    const nowMs = Date.now()
    for (let i = 0; i < BATCH && n < jobs; i++, n++) {
      const id = `01900000-0000-7000-8000-${n.toString(16).padStart(12, '0')}`
      const key = addSpec.run(id, `{"n":${n}}`, nowMs).lastInsertRowid
      addJob.run(key, nowMs)
      addEvent.run(key, nowMs)
    }
    database.exec('COMMIT')
  }
  return perSecond(jobs, beganMs)
}

interface Claimed {
  key: number
  attempt: number
}

function drainAll(database: DatabaseSync, jobs: number, failsOnce: boolean): number {
  const claim = database.prepare(`
    UPDATE jobs SET status = 'processing', ready = NULL, due_at = NULL, attempt = attempt + 1, worker = 1,
      lease_until = ?1 + 30000, claimed_at = ?1
    WHERE key IN (SELECT key FROM jobs WHERE ready IS NOT NULL AND type = 1 ORDER BY priority DESC, queued_at, key LIMIT ?2)
    RETURNING key, attempt`)
  const payloads = database.prepare('SELECT id, payload FROM job_specs WHERE key IN (SELECT value FROM json_each(?))')
  const addClaimEvents = database.prepare(`
    INSERT INTO events (job, at, kind, attempt, worker)
    SELECT value ->> 0, ?1, 'processing', value ->> 1, 1 FROM json_each(?2)`)
  const complete = database.prepare(`
    UPDATE jobs SET status = 'complete', worker = NULL, lease_until = NULL, finished_at = ?3, started_at = ?3
    WHERE key = ?1 AND attempt = ?2 AND status = 'processing'`)
  const requeue = database.prepare(`
    UPDATE jobs SET status = 'queued', worker = NULL, lease_until = NULL, claimed_at = NULL, ready = 1, spent = ?3
    WHERE key = ?1 AND attempt = ?2 AND status = 'processing'`)
  const addEvent = database.prepare(
    'INSERT INTO events (job, at, kind, attempt, worker, duration_ms, data) VALUES (?, ?, ?, ?, 1, 0, ?)',
  )
  const addFailure = database.prepare(`
    INSERT INTO failures (job, at, attempt, worker, stage, owner, code, fault, message, waiting, detail, context, causes,
      rule, fingerprint, from_status, to_status, decision)
    VALUES (?, ?, ?, 1, 'execution', 'worker', 'BOOM', 'dependency', 'It went wrong.', 'It went wrong.', ?, NULL, NULL,
      'declared by the handler', '1:0123456789abcdef', 'processing', 'queued', ?)`)
  const spent = '{"failures":1,"byCode":{"BOOM":1}}'
  const decision = JSON.stringify({
    because: 'BOOM is transient; failure 1 of 3; next attempt at once',
    rule: 'retry.max',
    budget: { name: 'retry.max', before: 0, after: 1, max: 3 },
    delay: { source: 'none' },
  })

  let held: Claimed[] = []
  let done = 0
  const beganMs = performance.now()
  while (done < jobs) {
    database.exec('BEGIN IMMEDIATE')
    const nowMs = Date.now()
    for (const { key, attempt } of held) {
      if (failsOnce && attempt === 1) {
        requeue.run(key, attempt, spent)
        const failure = addFailure.run(key, nowMs, attempt, 'AttemptFailed: the handler failed with BOOM', decision)
        addEvent.run(
          key,
          nowMs,
          'retry',
          attempt,
          JSON.stringify({ spent, failure: failure.lastInsertRowid, code: 'BOOM' }),
        )
      } else {
        complete.run(key, attempt, nowMs)
        addEvent.run(key, nowMs, 'complete', attempt, null)
        done++
      }
    }
    held = claim.all(nowMs, BATCH) as unknown as Claimed[]
    payloads.all(JSON.stringify(held.map(({ key }) => key)))
    addClaimEvents.run(nowMs, JSON.stringify(held.map(({ key, attempt }) => [key, attempt])))
    database.exec('COMMIT')
  }
  return perSecond(jobs, beganMs)
}

const perSecond = (jobs: number, beganMs: number): number => (jobs * 1000) / (performance.now() - beganMs)
