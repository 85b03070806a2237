import { channelOfType, typeOfChannel } from '../../core/notice/notice.ts'
import { formatMs, HOUR_MS, isoTime, MINUTE_MS } from '../../core/text/duration.ts'
import type { JobFacts, StoreFacts } from '../../store/contract/doctor.ts'
import { workerState } from '../workers/workers.ts'
import { counted, type Finding, ok, orFine, warning, wrong } from './findings.ts'
import { judgePostgres } from './postgres.ts'
import { judgeSqlite } from './sqlite.ts'

export interface Diagnosis {
  store: string
  /** Nothing is wrong; there may be warnings. */
  isWell: boolean
  findings: Finding[]
}

/** After this time, a missing worker is a problem and not only a delay. */
const UNSERVED_MS_MAX = MINUTE_MS
const READY_MS_MAX = HOUR_MS
/** Workers look for leases that ran out every few seconds. */
const EXPIRED_MS_MAX = MINUTE_MS

/** Pure: the same facts always give the same findings. */
export function diagnose({ place, base, jobs }: StoreFacts): Diagnosis {
  const findings = [
    ...(base.kind === 'sqlite' ? judgeSqlite(base) : judgePostgres(base)),
    ...(jobs === null ? [] : judgeJobs(jobs)),
  ]
  return { store: place, isWell: findings.every(({ level }) => level !== 'wrong'), findings }
}

function judgeJobs(facts: JobFacts): Finding[] {
  return [
    ...judgeWorkers(facts),
    ...judgeOrphans(facts),
    ...orFine(judgePauses(facts), ok('queues', 'no queue is paused')),
    ...orFine(judgeBreakers(facts), ok('breakers', 'no breaker is open')),
    ...orFine(judgeWaits(facts), ok('notices', 'every notice that waits has a channel at work')),
  ]
}

function judgeWorkers({ nowMs, types, workers, paused, breakers }: JobFacts): Finding[] {
  const working = workers.filter((worker) => workerState(worker, nowMs) === 'working')
  const served = new Set(working.flatMap((worker) => worker.types))
  // Which breaker holds which type is not known here: an open one excuses them all, and has a line of its own.
  const isHeld = (queue: string) => paused.some((pause) => pause.queue === queue) || breakers.some(isOpen)
  const findings = types.flatMap(({ type, queue, ready, oldestReadyAtMs }): Finding[] => {
    if (ready === 0 || oldestReadyAtMs === null) return []
    const waitedMs = Math.max(0, nowMs - oldestReadyAtMs)
    const jobs = `${counted(ready, 'job')} of ${type} ${ready === 1 ? 'is' : 'are'} ready, the oldest for ${formatMs(waitedMs)}`
    if (!served.has(type)) {
      const channel = channelOfType(type)
      const fix = `start a program that declares ${channel === null ? 'this type' : `the channel ${channel}`}, such as: redress worker app.ts`
      const judge = waitedMs >= UNSERVED_MS_MAX ? wrong : warning
      return [judge('workers', `${jobs}, and no worker at work runs this type`, fix)]
    }
    if (waitedMs < READY_MS_MAX || isHeld(queue)) return []
    const fix = 'ask one of them what it waits for (redress explain JOB), or start more workers'
    return [warning('workers', `${jobs}, though workers are at work`, fix)]
  })
  return orFine(
    findings,
    ok('workers', `${counted(working.length, 'worker')} at work; nothing ready waits for one in vain`),
  )
}

function judgeOrphans({ nowMs, orphans, expired }: JobFacts): Finding[] {
  const findings: Finding[] = []
  if (orphans.count > 0) {
    const since = formatMs(nowMs - (orphans.oldestAtMs ?? nowMs))
    findings.push(
      warning(
        'orphans',
        `${counted(orphans.count, 'job')} of lost workers ${orphans.count === 1 ? 'waits' : 'wait'} for a person, the oldest for ${since}`,
        'see redress orphans list, then redress jobs mark-failed or redress jobs retry',
      ),
    )
  }
  const expiredForMs = nowMs - (expired.oldestAtMs ?? nowMs)
  if (expired.count > 0 && expiredForMs >= EXPIRED_MS_MAX) {
    findings.push(
      warning(
        'leases',
        `the leases of ${counted(expired.count, 'job')} ran out, the oldest ${formatMs(expiredForMs)} ago, and nobody took them back`,
        'start a worker: any worker notices the jobs of lost ones',
      ),
    )
  }
  return orFine(findings, ok('orphans', 'no job has lost its worker'))
}

const judgePauses = ({ nowMs, paused }: JobFacts): Finding[] =>
  paused.map(({ queue, by, reason, atMs, untilMs }) => {
    const until = untilMs === null ? '' : `, until ${isoTime(untilMs)}`
    return warning(
      'queues',
      `${queue} was paused by ${by} ${formatMs(Math.max(0, nowMs - atMs))} ago${until}: ${reason}`,
      `redress queues resume ${queue} --reason WHY`,
    )
  })

const isOpen = ({ status }: JobFacts['breakers'][number]): boolean => status !== 'closed'

const judgeBreakers = ({ nowMs, breakers }: JobFacts): Finding[] =>
  breakers.filter(isOpen).map(({ name, status, reason, sinceMs, forcedBy }) => {
    const since = `for ${formatMs(Math.max(0, nowMs - sinceMs))}`
    return forcedBy === null
      ? warning(
          'breakers',
          `${name} is ${status} ${since}: ${reason}`,
          `look at ${name}; redress breakers probe ${name} tries it now`,
        )
      : warning(
          'breakers',
          `${name} is forced open by ${forcedBy} ${since}: ${reason}`,
          `redress breakers release ${name} --reason WHY`,
        )
  })

function judgeWaits({ nowMs, waits, workers }: JobFacts): Finding[] {
  const served = new Set(
    workers.filter((worker) => workerState(worker, nowMs) === 'working').flatMap(({ types }) => types),
  )
  return waits
    .filter(({ channel }) => !served.has(typeOfChannel(channel)))
    .map(({ channel, notices, oldestAtMs }) =>
      warning(
        'notices',
        `${counted(notices, 'notice')} for the channel ${channel}, the oldest of ${formatMs(Math.max(0, nowMs - oldestAtMs))} ago, and no worker at work has that channel`,
        `start a program that declares the channel ${channel}`,
      ),
    )
}
