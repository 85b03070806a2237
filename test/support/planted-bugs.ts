/** Faults that could be made in earnest. Each is planted in the sources as they are loaded; some test must notice. */
export interface PlantedBug {
  name: string
  file: string
  /** Must stand in the file exactly once. */
  find: string
  replace: string
  caughtBy: { file: string; tests: string }
}

/** Its promises are kept without a test runner. */
export const SUITE = 'packages/redress/test/store/conformance.test.ts'
const promise = (sentence: string) => ({ file: SUITE, tests: `sqlite memory: .*${sentence}` })

const CHANGE = 'packages/redress/src/core/job/change.ts'
const CLOSING = 'packages/redress/src/store/sqlite/jobs/closing.ts'
const SCHEMA = 'packages/redress/src/store/sqlite/schema/schema.ts'
const DECIDE = 'packages/redress/src/core/policy/decide.ts'

export const PLANTED_BUGS: readonly PlantedBug[] = [
  {
    name: 'the fence does not compare the attempt',
    file: 'packages/redress/src/store/sqlite/jobs/fence.ts',
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
    find: 'addEnd({ at: close, worker, claimedAtMs: closed.untold_claim, ranMs }, change, NO_NUMBERS, nowMs)',
    replace: '',
    caughtBy: promise('an attempt leaves who had it'),
  },
  {
    name: 'a lease is counted by the wall clock of the process',
    file: 'packages/redress/src/store/sqlite/jobs/claiming.ts',
    find: 'lease.run(worker, nowMs + ttlMs',
    replace: 'lease.run(worker, Date.now() + ttlMs',
    caughtBy: promise('a lease says what the worker needs to know'),
  },
  {
    name: 'a worker trusts its lease from the answer, not from when it asked',
    file: 'packages/redress/src/worker/claim/intake.ts',
    find: 'this.#handlerOf(lease), this.#runtime, nowMs, askedMonoMs)',
    replace: 'this.#handlerOf(lease), this.#runtime, nowMs, this.#clock.monoMs())',
    caughtBy: {
      file: 'packages/redress/test/worker/leases/leases.test.ts',
      tests: 'is trusted from when it was asked for',
    },
  },
  {
    name: 'a lost worker counts as a failure',
    file: DECIDE,
    find: `const spent = consumes ? spendFailure(job.spent, 'WORKER_LOST') : job.spent`,
    replace: `const spent = spendFailure(job.spent, 'WORKER_LOST')`,
    caughtBy: { file: 'packages/redress/test/testing/kit.test.ts', tests: 'costs the job none of its retries' },
  },
  {
    name: 'a job that never started counts as taken from a lost worker',
    file: DECIDE,
    find: `return { kind: 'requeue', spent: spendRelease(job.spent), reasons }`,
    replace: `return { kind: 'requeue', spent: spendReclaim(job.spent), reasons }`,
    caughtBy: { file: 'packages/redress/test/testing/kit.test.ts', tests: 'costs a job that had not begun nothing' },
  },
  {
    name: 'one more retry than the budget has',
    file: DECIDE,
    find: 'budget.after >= budget.max',
    replace: 'budget.after > budget.max',
    caughtBy: { file: 'packages/redress/test/testing/kit.test.ts', tests: 'fails for good when its budget is spent' },
  },
  {
    name: 'a failed job keeps its live dedupe key',
    file: 'packages/redress/src/core/job/dedupe.ts',
    find: `FREES_LIVE_KEY: readonly Status[] = ['failed', 'cancelled']`,
    replace: `FREES_LIVE_KEY: readonly Status[] = ['cancelled']`,
    caughtBy: promise('a live key is free again'),
  },
  {
    name: 'the database lets a finished job go on',
    file: SCHEMA,
    find: 'WHEN NEW.attempt < OLD.attempt OR',
    replace: 'WHEN 0 AND NEW.attempt < OLD.attempt AND',
    caughtBy: { file: 'packages/redress/test/store/sqlite-constraints.test.ts', tests: 'cannot be moved' },
  },
  {
    name: 'the database lets a forward-only job go back',
    file: 'packages/redress/src/store/scripts/tables.ts',
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
    file: CHANGE,
    find: 'const isExpired = leaseUntilMs <= nowMs',
    replace: 'const isExpired = leaseUntilMs > 0',
    caughtBy: promise('whose lease was renewed meanwhile'),
  },
  {
    name: 'an orphan is reported at every round',
    file: CHANGE,
    find: `if (to === 'orphaned' && orphanedAtMs !== null) return false`,
    replace: '',
    caughtBy: promise('an orphan is reported once per attempt'),
  },
  {
    name: 'urgent jobs wait in line with the others',
    file: 'packages/redress/src/store/sqlite/jobs/claiming.ts',
    find: 'ORDER BY 2 DESC, 3, 1',
    replace: 'ORDER BY 3, 1',
    caughtBy: promise('higher priority goes first'),
  },
  {
    name: 'a commit does not wait for the disk',
    file: 'packages/redress/src/store/sqlite/connection/connection.ts',
    find: 'PRAGMA synchronous = FULL',
    replace: 'PRAGMA synchronous = NORMAL',
    caughtBy: { file: 'packages/redress/test/store/sqlite.test.ts', tests: 'every commit waits for the disk' },
  },
  {
    name: 'the key of a removed job is given again',
    file: 'packages/redress/src/store/scripts/tables.ts',
    find: 'CREATE TABLE job_specs (\n  key INTEGER PRIMARY KEY AUTOINCREMENT',
    replace: 'CREATE TABLE job_specs (\n  key INTEGER PRIMARY KEY',
    caughtBy: promise('a worker whose job was removed'),
  },
  {
    name: 'the number of a removed event is given again',
    file: 'packages/redress/src/store/sqlite/jobs/at-once.ts',
    find: ' AND seq < (SELECT max(seq) FROM events)',
    replace: '',
    caughtBy: promise('a number is never given again'),
  },
  {
    name: 'dead letters are removed with the rest',
    file: 'packages/redress/src/store/scripts/jobs/pruning.ts',
    find: 'mayGo(row) && !keeping.has(row.key)',
    replace: 'mayGo(row) && keeping.size >= 0',
    caughtBy: promise('a dead letter without a retention is never removed'),
  },
  {
    name: 'a letter is replayed by everybody who tries at once',
    file: 'packages/redress/src/core/dead-letter/replay.ts',
    find: 'if (replays !== replaysSeen) return',
    replace: 'if (replays < 0) return',
    caughtBy: promise('of any number who replay a letter at once, one does'),
  },
  {
    name: 'letters that two processes have in hand are counted twice',
    file: 'packages/redress/src/store/scripts/letters/replays.ts',
    find: "AND state = 'waiting'`",
    replace: '`',
    caughtBy: promise('a letter that several processes have in hand at once'),
  },
  {
    name: 'letters in hand go on though the replay was paused',
    file: 'packages/redress/src/store/scripts/letters/replays.ts',
    find: `if (step.kind !== 'submit') return { submitted: 0, skipped: 0 }`,
    replace: `if (step.kind === 'move') return { submitted: 0, skipped: 0 }
          if (step.kind !== 'submit')
            return { submitted: (yield* settleItems(tx, row, decided, decided.length, atMs)).length, skipped: 0 }`,
    caughtBy: promise('a pause holds it between any two letters'),
  },
  {
    name: 'whoever has the turn and dies keeps it',
    file: 'packages/redress/src/store/scripts/letters/replays.ts',
    find: 'postpone(tx, row, atMs + turnMs)',
    replace: 'postpone(tx, row, atMs + 100 * turnMs)',
    caughtBy: promise('whoever dies loses only its turn'),
  },
  {
    name: 'a purge reaches letters that came after it was decided on',
    file: 'packages/redress/src/store/scripts/letters/letter-pages.ts',
    find: 'AND dead_letters."offset" <= ${upToOffset} AND',
    replace: 'AND',
    caughtBy: promise('a purge leaves alone what came after'),
  },
  {
    name: 'a locked policy can be weakened',
    file: 'packages/redress/src/store/scripts/jobs/types.ts',
    find: 'before?.policy.locked ? weakens(before.policy, policy) : []',
    replace: '([] as string[])',
    caughtBy: promise('a locked policy cannot be weakened'),
  },
  {
    name: 'one bad call takes those beside it down',
    file: 'packages/redress/src/store/sqlite/connection/group-commit.ts',
    find: 'else for (const write of group) this.#commitAlone(write)',
    replace: 'else for (const write of group) write.reject(storeError(error, write.doing))',
    caughtBy: promise('one call that is refused does not harm'),
  },
  {
    name: 'an outcome that could not be recorded is forgotten',
    file: 'packages/redress/src/worker/recorder.ts',
    find: 'this.#refused.push(entry)',
    replace: '',
    caughtBy: { file: 'packages/redress/test/store/recording.test.ts', tests: 'is not complete, until it can' },
  },
  {
    name: 'a job that kills its workers never has its start recorded first',
    file: 'packages/redress/src/worker/attempt/steps.ts',
    find: 'return reclaims > 0 || releases > 0',
    replace: 'return false && reclaims > 0 && releases > 0',
    caughtBy: { file: 'packages/redress/test/testing/kit.test.ts', tests: 'before its start could be recorded' },
  },
  {
    name: 'a tick is taken by whoever asks',
    file: 'packages/redress/src/store/scripts/schedules.ts',
    find: ' AND given.revision = schedules.revision AND given.next = schedules.next_at',
    replace: '',
    caughtBy: promise('a tick that was taken cannot be taken again'),
  },
  {
    name: 'nobody is told of removed events whose last number is kept',
    file: 'packages/redress/src/store/sqlite/jobs/at-once.ts',
    find: 'HAVING max(seq) > 0',
    replace: 'HAVING max(seq) < 0',
    caughtBy: promise('the removal of the newest is told, too'),
  },
  {
    name: 'a time that the clocks repeat comes twice',
    file: 'packages/redress/src/runtime/cron.ts',
    find: 'const ticks = isForEveryHour(expression)',
    replace: "const ticks = expression !== ''",
    caughtBy: { file: 'packages/redress/test/runtime/cron.test.ts', tests: 'comes once, at its first pass' },
  },
  {
    name: 'an orphan lets another job of its limited type begin',
    file: 'packages/redress/src/store/scripts/limits/gates.ts',
    find: 'const UNDER_WAY = sql`limit_key IS NOT NULL',
    replace: 'const UNDER_WAY = sql`orphaned_at IS NULL AND limit_key IS NOT NULL',
    caughtBy: promise('a job whose worker is gone is under way'),
  },
  {
    name: 'a process keeps to the limits that it knew first',
    file: 'packages/redress/src/store/scripts/jobs/types.ts',
    find: 'if ((row?.version ?? 0) !== seenVersion)',
    replace: 'if (seenVersion < 0 && row !== undefined)',
    caughtBy: { file: SUITE, tests: 'sqlite file: .*a limit binds every process from the moment one declares it' },
  },
  {
    name: 'a rate loses what flows in between two milliseconds',
    file: 'packages/redress/src/core/limits/rate.ts',
    find: 'Math.min(max, perMs) - 1',
    replace: 'Math.min(max, perMs, 1) - 1',
    caughtBy: promise('says when to ask again, to the millisecond'),
  },
  {
    name: 'a subscriber joins the others before it has caught up',
    file: 'packages/redress/src/app/events/hub.ts',
    find: '? !hasMore : subscription.position.seq >= this.#seq',
    replace: '? !hasMore : this.#seq >= 0',
    caughtBy: { file: 'packages/redress/test/app/hub.test.ts', tests: 'continues after its last event' },
  },
  {
    name: 'who was cut off amid the events of one loses the rest of them',
    file: 'packages/redress/src/app/events/hub.ts',
    find: 'part === WHOLE ? seq : seq - 1',
    replace: 'part === WHOLE ? seq : seq',
    caughtBy: { file: 'packages/redress/test/app/hub.test.ts', tests: 'in the middle of what was made from one event' },
  },
  {
    name: 'a breaker counts what is the fault of the caller',
    file: 'packages/redress/src/core/limits/breaker.ts',
    find: `return failure?.fault === 'dependency' ? 'failed' : null`,
    replace: `return failure === null ? null : 'failed'`,
    caughtBy: {
      file: 'packages/redress/test/worker/claim/breaker-watch.test.ts',
      tests: 'faults of the caller never open it',
    },
  },
  {
    name: 'a breaker counts calls from before it opened',
    file: 'packages/redress/src/store/scripts/limits/breakers.ts',
    find: 'if (epoch !== breaker.epoch) return',
    replace: 'if (epoch > breaker.epoch) return',
    caughtBy: promise('calls begun before it opened say nothing'),
  },
  {
    name: 'a breaker that closes lets the whole backlog go at once',
    file: 'packages/redress/src/core/limits/breaker.ts',
    find: 'return nowMs < state.sinceMs + policy.rampMs',
    replace: 'return nowMs < state.sinceMs',
    caughtBy: promise('the load grows step by step'),
  },
  {
    name: 'an outcome that waits to be recorded is given up with its lease',
    file: 'packages/redress/src/worker/leases/deadlines.ts',
    find: `if (flight.state.kind === 'closing') continue`,
    replace: '',
    caughtBy: {
      file: 'packages/redress/test/worker/record/write-failures.test.ts',
      tests: 'an outcome outlives its lease',
    },
  },
  {
    name: 'a renewed lease is trusted for twice its time',
    file: 'packages/redress/src/worker/leases/lease-keeper.ts',
    find: 'Math.max(flight.trustedUntilMonoMs, askedMonoMs + ttlMs)',
    replace: 'Math.max(flight.trustedUntilMonoMs, askedMonoMs + 2 * ttlMs)',
    caughtBy: {
      file: 'packages/redress/test/worker/leases/renewals.test.ts',
      tests: 'is trusted from when it was asked, not from its answer',
    },
  },
  {
    name: 'deadlines wait for the answer to a renewal',
    file: 'packages/redress/src/worker/leases/deadlines.ts',
    find: 'this.#alarm.setAt(atMonoMs)',
    replace: '',
    caughtBy: { file: 'packages/redress/test/worker/leases/silent-store.test.ts', tests: 'when no call is answered' },
  },
  {
    name: 'a line of the failure log is glued to one that was cut off',
    file: 'packages/redress/src/runtime/journal.ts',
    find: '(await endsInALine(file, size)) ? text',
    replace: '(await endsInALine(file, size)) || text ? text',
    caughtBy: { file: 'packages/redress/test/runtime/journal.test.ts', tests: 'swallows none that comes after it' },
  },
  {
    name: 'a stage that used up its tries is tried again by the attempt after it',
    file: DECIDE,
    find: 'if (failure.final) return fail(',
    replace: 'if (failure.final && failure.code === "") return fail(',
    caughtBy: {
      file: 'packages/redress/test/worker/attempt/stages.test.ts',
      tests: 'ends the job, whatever attempts it has left',
    },
  },
  {
    name: 'a wait between two tries goes on when the attempt is over',
    file: 'packages/redress/src/worker/attempt/stage.ts',
    find: `signal.addEventListener('abort', stop, { once: true })`,
    replace: 'void stop',
    caughtBy: {
      file: 'packages/redress/test/worker/attempt/stages-ending.test.ts',
      tests: 'a cancellation ends the wait at once',
    },
  },
  {
    name: 'a sign-in link works as often as it is used',
    file: 'packages/redress/src/store/scripts/accounts.ts',
    find: `kind <> 'link' OR used_at IS NULL`,
    replace: `kind <> '' OR used_at IS NULL`,
    caughtBy: promise('of any number of processes that use one link at once'),
  },
  {
    name: 'a token outlives its account',
    file: 'packages/redress/src/store/scripts/accounts.ts',
    find: 'WHERE accounts.key = credentials.account AND disabled_at IS NULL',
    replace: 'WHERE accounts.key = credentials.account',
    caughtBy: promise('a disabled account ends all that it holds'),
  },
  {
    name: 'an admin of few operations makes one of all',
    file: 'packages/redress/src/operations/caller.ts',
    find: 'if (asked === undefined) return own',
    replace: 'if (asked === undefined) return undefined as never',
    caughtBy: {
      file: 'packages/redress/test/operations/accounts/tokens.test.ts',
      tests: 'gives out no more than they have',
    },
  },
  {
    name: 'an outcome that does not count is counted',
    file: 'packages/redress/src/metrics/tally.ts',
    find: `if (report.answer === 'lost') return`,
    replace: '',
    caughtBy: { file: 'packages/redress/test/app/observability.test.ts', tests: 'without a valid lease' },
  },
]
