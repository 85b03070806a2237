/** Faults that could be made in earnest. Each is planted in a copy of the sources; some test must notice. */
export interface PlantedBug {
  name: string
  file: string
  /** Must stand in the file exactly once. */
  find: string
  replace: string
  caughtBy: { file: string; tests: string }
}

const SUITE = 'test/store/conformance.test.ts'
const promise = (sentence: string) => ({ file: SUITE, tests: `sqlite memory: .*${sentence}` })

const CLOSING = 'src/store/sqlite/closing.ts'
const SCHEMA = 'src/store/sqlite/schema.ts'
const DECIDE = 'src/core/decide.ts'

export const PLANTED_BUGS: readonly PlantedBug[] = [
  {
    name: 'the fence does not compare the attempt',
    file: 'src/store/sqlite/fence.ts',
    find: 'attempt = ?2 AND',
    replace: '?2 > 0 AND',
    caughtBy: promise('a worker whose job was given to another'),
  },
  {
    name: 'a write that came too late leaves no evidence',
    file: CLOSING,
    find: 'if (row === undefined) return\n    history.event(',
    replace: 'if (row !== null) return\n    history.event(',
    caughtBy: promise('each refused write leaves evidence'),
  },
  {
    name: 'a job completes without its event',
    file: CLOSING,
    find: `history.event(key, nowMs, 'complete', attempt, worker, ranMs, null)`,
    replace: '',
    caughtBy: promise('an attempt leaves who had it'),
  },
  {
    name: 'a lease is counted by the wall clock of the process',
    file: 'src/store/sqlite/claiming.ts',
    find: 'lease.run(worker, nowMs + ttlMs',
    replace: 'lease.run(worker, Date.now() + ttlMs',
    caughtBy: promise('a lease says what the worker needs to know'),
  },
  {
    name: 'a worker trusts its lease from the answer, not from when it asked',
    file: 'src/worker/intake.ts',
    find: 'this.#handlerOf(lease), nowMs, askedMonoMs)',
    replace: 'this.#handlerOf(lease), nowMs, this.#clock.monoMs())',
    caughtBy: { file: 'test/worker/leases.test.ts', tests: 'is trusted from when it was asked for' },
  },
  {
    name: 'a lost worker counts as a failure',
    file: DECIDE,
    find: `const spent = consumes ? spendFailure(job.spent, 'WORKER_LOST') : job.spent`,
    replace: `const spent = spendFailure(job.spent, 'WORKER_LOST')`,
    caughtBy: { file: 'test/testing/kit.test.ts', tests: 'costs the job none of its retries' },
  },
  {
    name: 'a job that never started counts as taken from a lost worker',
    file: DECIDE,
    find: `return { kind: 'requeue', spent: spendRelease(job.spent), reasons }`,
    replace: `return { kind: 'requeue', spent: spendReclaim(job.spent), reasons }`,
    caughtBy: { file: 'test/testing/kit.test.ts', tests: 'costs a job that had not begun nothing' },
  },
  {
    name: 'one more retry than the budget has',
    file: DECIDE,
    find: 'budget.after >= budget.max',
    replace: 'budget.after > budget.max',
    caughtBy: { file: 'test/testing/kit.test.ts', tests: 'fails for good when its budget is spent' },
  },
  {
    name: 'a failed job keeps its live dedupe key',
    file: CLOSING,
    find: 'failure, change.spent, letter)\n        freeDedupeKey.run(key)',
    replace: 'failure, change.spent, letter)',
    caughtBy: promise('a live key is free again'),
  },
  {
    name: 'the database lets a finished job go on',
    file: SCHEMA,
    find: 'WHEN NEW.attempt < OLD.attempt OR',
    replace: 'WHEN 0 AND NEW.attempt < OLD.attempt AND',
    caughtBy: { file: 'test/store/sqlite-constraints.test.ts', tests: 'is not moved' },
  },
  {
    name: 'the database lets a forward-only job go back',
    file: SCHEMA,
    find: 'AND (forward_only = 0 OR attempt = 0)',
    replace: '',
    caughtBy: promise('never goes back from processing'),
  },
  {
    name: 'a job that goes back to the queue forgets that it is to be cancelled',
    file: CLOSING,
    find: 'AND cancel_requested_at IS NULL AND orphaned_at IS NULL',
    replace: '',
    caughtBy: promise('does not forget that it is to be cancelled'),
  },
  {
    name: 'a job is taken back though its lease was renewed meanwhile',
    file: CLOSING,
    find: 'row.lease_until <= nowMs',
    replace: 'row.lease_until > 0',
    caughtBy: promise('whose lease was renewed meanwhile'),
  },
  {
    name: 'an orphan is reported at every round',
    file: CLOSING,
    find: `if (row.orphaned_at !== null) return 'lost'`,
    replace: '',
    caughtBy: promise('an orphan is reported once per attempt'),
  },
  {
    name: 'urgent jobs wait in line with the others',
    file: 'src/store/sqlite/claiming.ts',
    find: 'ORDER BY 2 DESC, 3, 1',
    replace: 'ORDER BY 3, 1',
    caughtBy: promise('higher priority goes first'),
  },
  {
    name: 'a commit does not wait for the disk',
    file: 'src/store/sqlite/connection.ts',
    find: 'PRAGMA synchronous = FULL',
    replace: 'PRAGMA synchronous = NORMAL',
    caughtBy: { file: 'test/store/sqlite.test.ts', tests: 'every commit waits for the disk' },
  },
  {
    name: 'the key of a removed job is given again',
    file: SCHEMA,
    find: 'CREATE TABLE job_specs (\n  key INTEGER PRIMARY KEY AUTOINCREMENT',
    replace: 'CREATE TABLE job_specs (\n  key INTEGER PRIMARY KEY',
    caughtBy: promise('a worker whose job was removed'),
  },
  {
    name: 'the number of a removed event is given again',
    file: 'src/store/sqlite/pruning.ts',
    find: ' AND seq < (SELECT max(seq) FROM events)',
    replace: '',
    caughtBy: promise('a number is never given again'),
  },
  {
    name: 'dead letters are removed with the rest',
    file: 'src/store/sqlite/pruning.ts',
    find: 'hasDeadLetter.get(row.key) !== undefined',
    replace: 'false',
    caughtBy: promise('a dead letter is never removed'),
  },
  {
    name: 'a locked policy can be weakened',
    file: 'src/store/sqlite/types.ts',
    find: 'before?.policy.locked ? weakens(before.policy, type.policy) : []',
    replace: '([] as string[])',
    caughtBy: promise('a locked policy cannot be weakened'),
  },
  {
    name: 'one bad call takes those beside it down',
    file: 'src/store/sqlite/group-commit.ts',
    find: 'else for (const write of group) this.#commitAlone(write)',
    replace: 'else for (const write of group) write.reject(storeError(error, write.doing))',
    caughtBy: promise('one call that is refused does not harm'),
  },
  {
    name: 'an outcome that could not be recorded is forgotten',
    file: 'src/worker/recorder.ts',
    find: 'this.#refused.push(entry)',
    replace: '',
    caughtBy: { file: 'test/store/recording.test.ts', tests: 'is not complete, until it can' },
  },
  {
    name: 'a job that kills its workers never has its start recorded first',
    file: 'src/worker/pipeline.ts',
    find: 'return reclaims > 0 || releases > 0',
    replace: 'return false && reclaims > 0 && releases > 0',
    caughtBy: { file: 'test/testing/kit.test.ts', tests: 'before its start could be recorded' },
  },
]
