import type { EventKind, SubjectEvents, SubjectThing } from '../packages/redress/src/core/job/events.ts'
import type { ReportKind } from '../packages/redress/src/core/job/reports.ts'

/** In the order in which they can happen. The type makes a kind that is missing here an error. */
export const eventMeanings: Readonly<Record<EventKind, string>> = {
  queued: 'Submitted and accepted. Names the person and the reason where it was made by a retry.',
  processing:
    'Claimed by a worker: the attempt begins to count. On the feed it comes with the next event of the attempt: its start, or its end.',
  started: 'The handler really began. Left out when the attempt closes at once; its close says how long it ran.',
  complete: 'The attempt succeeded, and its output passed verification.',
  retry: 'The attempt failed, and the job goes back to the queue by its policy.',
  failed: 'Failed for good: by policy, because its worker was lost, by a person, or before any dispatch.',
  cancelled: 'Cancelled, while it waited or while it ran.',
  released: 'Given back by a worker that stops or has no room. Costs nothing.',
  snoozed: 'Put off by its own handler. Costs nothing.',
  reclaimed: 'Taken back from a worker that is gone.',
  orphaned: 'Its worker is gone. Reported and not touched: a person decides.',
  recovered: 'The worker of a reported orphan came back.',
  'cancel-requested': 'A person asked to cancel a running job; its worker is told.',
  'manual-retry': 'A person sent a failed job back to the queue.',
  rescheduled: 'A person changed the time of a waiting job. Without `dueAt` it is due at once.',
  reprioritised: 'A person changed the priority of a waiting job.',
  'input-replaced': 'A job that had not begun got another input, and with `dueAt` also another time.',
  expired: 'A file that the job needed or made was removed by retention. The job itself stays as it was.',
  lost: 'A worker wrote after its lease was gone. The write was refused; this is the evidence.',
  deleted: 'A person deleted the finished job with its history. Only the feed has this event.',
}

/** The same for what a running handler reports. */
export const reportMeanings: Readonly<Record<ReportKind, string>> = {
  log: 'The handler called `attempt.log`: carries `line`, `message` and `fields`. Only for operators.',
  progress: 'The handler called `attempt.progress`: carries `progress`, `done`, `total` and `note`.',
}

/** The same for what is not a job. */
export const subjectMeanings: Readonly<{ [Thing in SubjectThing]: Record<SubjectEvents[Thing][number], string> }> = {
  batch: {
    settled: 'Its last job has ended: carries what it came to, and the counts.',
    reopened: 'A job of it was retried.',
    expired: 'Its time is over; it stays so.',
  },
  breaker: {
    opened: 'Too many calls failed, or a try did: nothing more is sent.',
    'half-open': 'It tries with a few.',
    closed: 'The dependency answers again.',
    forced: 'A person forced it open or closed.',
    released: 'It is no longer forced: by a person, or because its time was over.',
  },
  queue: {
    paused: 'A person paused it.',
    resumed: 'A person resumed it, or the time of its pause was over.',
  },
  schedule: {
    declared: 'A program declared it for the first time, or it was stored at runtime.',
    changed: 'A program declared it differently, or it was upserted with another definition.',
    skipped: 'Ticks were missed and are not made up for.',
    failed: 'The job of a tick could not be made; it is tried again.',
    paused: 'A person paused it.',
    resumed: 'A person resumed it.',
    triggered: 'A person ran it now.',
    ended: 'It has no further tick: its count or its last time is reached.',
    removed: 'A person removed it.',
  },
  replay: {
    planned: 'Its selection is frozen.',
    canary: 'It began with its first few.',
    running: 'It began, or its canary went well.',
    paused: 'A person paused it.',
    resumed: 'A person let it go on.',
    done: 'Every letter was replayed or skipped.',
    stopped: 'Its canary failed; a person decides.',
    aborted: 'A person ended it.',
  },
  failures: {
    resolved: 'A person said that the cause is gone.',
    snoozed: 'A person put it off.',
    reopened: 'A person reopened it, or its snooze was over.',
    regressed: 'It was resolved, and failed again.',
  },
}
