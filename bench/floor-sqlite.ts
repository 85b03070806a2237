import { DatabaseSync } from 'node:sqlite'
import { FAILED_ONCE, type Floor, makeTables, newId, perSecond } from './floor.ts'

export async function openSqliteFloor(path: string): Promise<Floor> {
  await makeTables(`sqlite:${path}`)
  const database = new DatabaseSync(path)
  database.exec('PRAGMA synchronous = FULL; PRAGMA cache_size = -65536')
  return {
    submit: async (jobs, batch) => submitAll(database, jobs, batch),
    drain: async (jobs, { batch, failsOnce }) => drainAll(database, jobs, batch, failsOnce),
    async pickUp() {
      const beganMs = performance.now()
      submitAll(database, 1, 1)
      const ackMs = performance.now() - beganMs
      database.exec('BEGIN IMMEDIATE')
      claimer(database)(Date.now(), 1)
      database.exec('COMMIT')
      return { pickUpMs: performance.now() - beganMs, ackMs }
    },
    close: async () => database.close(),
  }
}

function submitAll(database: DatabaseSync, jobs: number, batch: number): number {
  const addSpec = database.prepare('INSERT INTO job_specs (id, type, payload, created_at) VALUES (?, 1, ?, ?)')
  const addJob = database.prepare(`
    INSERT INTO jobs (key, type, status, priority, queued_at, ready, forward_only) VALUES (?, 1, 'queued', 0, ?, 1, 0)`)
  const addEvent = database.prepare(`INSERT INTO events (job, at, kind, attempt) VALUES (?, ?, 'queued', 0)`)
  const beganMs = performance.now()
  for (let n = 0; n < jobs; ) {
    database.exec('BEGIN IMMEDIATE')
    const nowMs = Date.now()
    for (let i = 0; i < batch && n < jobs; i++, n++) {
      const key = addSpec.run(newId(), `{"n":${n}}`, nowMs).lastInsertRowid
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

/** Claims, in the transaction that is open. */
function claimer(database: DatabaseSync): (nowMs: number, max: number) => Claimed[] {
  const claim = database.prepare(`
    UPDATE jobs SET status = 'processing', ready = NULL, due_at = NULL, attempt = attempt + 1, worker = 1,
      lease_until = ?1 + 30000, claimed_at = ?1, untold_claim = ?1
    WHERE key IN (SELECT key FROM jobs WHERE ready IS NOT NULL AND type = 1 ORDER BY priority DESC, queued_at, key LIMIT ?2)
    RETURNING key, attempt`)
  const payloads = database.prepare('SELECT id, payload FROM job_specs WHERE key IN (SELECT value FROM json_each(?))')
  return (nowMs, max) => {
    const held = claim.all(nowMs, max) as unknown as Claimed[]
    payloads.all(JSON.stringify(held.map(({ key }) => key)))
    return held
  }
}

function drainAll(database: DatabaseSync, jobs: number, batch: number, failsOnce: boolean): number {
  const claim = claimer(database)
  const complete = database.prepare(`
    UPDATE jobs SET status = 'complete', worker = NULL, lease_until = NULL, finished_at = ?3, started_at = ?3
    WHERE key = ?1 AND attempt = ?2 AND status = 'processing'`)
  const requeue = database.prepare(`
    UPDATE jobs SET status = 'queued', worker = NULL, lease_until = NULL, claimed_at = NULL, ready = 1, spent = ?3
    WHERE key = ?1 AND attempt = ?2 AND status = 'processing'`)
  const addEvent = database.prepare(
    'INSERT INTO events (job, at, kind, attempt, worker, duration_ms, data, claimed_at) VALUES (?, ?, ?, ?, 1, 0, ?, ?)',
  )
  const addFailure = database.prepare(`
    INSERT INTO failures (job, at, attempt, worker, stage, owner, code, fault, message, waiting, detail, context, causes,
      rule, fingerprint, from_status, to_status, decision)
    VALUES (?, ?, ?, 1, 'execution', 'worker', 'BOOM', 'dependency', 'It went wrong.', 'It went wrong.', ?, NULL, NULL,
      'declared by the handler', '1:0123456789abcdef', 'processing', 'queued', ?)`)
  const { spent, detail, decision } = FAILED_ONCE

  let held: Claimed[] = []
  let done = 0
  const beganMs = performance.now()
  while (done < jobs) {
    database.exec('BEGIN IMMEDIATE')
    const nowMs = Date.now()
    for (const { key, attempt } of held) {
      if (failsOnce && attempt === 1) {
        requeue.run(key, attempt, spent)
        const failure = addFailure.run(key, nowMs, attempt, detail, decision)
        const data = JSON.stringify({ spent, failure: failure.lastInsertRowid, code: 'BOOM' })
        addEvent.run(key, nowMs, 'retry', attempt, data, nowMs)
      } else {
        complete.run(key, attempt, nowMs)
        addEvent.run(key, nowMs, 'complete', attempt, null, nowMs)
        done++
      }
    }
    held = claim(nowMs, batch)
    database.exec('COMMIT')
  }
  return perSecond(jobs, beganMs)
}
