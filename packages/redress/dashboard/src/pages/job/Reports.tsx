import type { JobView } from '../../../../src/core/views/job.ts'
import type { LogLineView } from '../../../../src/operations/jobs/logs.ts'
import { about, useQuery } from '../../api/query.ts'
import { isOwner, whyNot } from '../../api/session.ts'
import { CopyButton } from '../../parts/Copy.tsx'
import { Problem } from '../../parts/States.tsx'
import { Clock } from '../../parts/Time.tsx'
import { cliOf } from '../../words/cli.ts'

const LINES_SHOWN = 100

/** How far a running job is, as its handler reports it. */
export function Progress({ job }: { job: JobView }) {
  const { status, progress, progressDone, progressTotal, progressNote } = job
  if (status !== 'processing' || (progress === 0 && progressNote === null)) return null
  const percent = `${Math.round(progress * 100)} %`
  const count = progressDone === null ? '' : `, ${progressDone} of ${progressTotal}`
  return (
    <div class="progress">
      <progress id="progress" max={1} value={progress} aria-label="Progress" />
      <label for="progress">
        {percent}
        {count}
        {progressNote !== null && <span class="quiet"> {progressNote}</span>}
      </label>
    </div>
  )
}

/** The lines that the handler logged, while they come. Owners do not see them. */
export function Log({ id }: { id: string }) {
  const maySee = !isOwner() && whyNot('jobs.logs') === null
  const input = maySee ? { id, tail: LINES_SHOWN } : null
  const { data, problem } = useQuery('jobs.logs', input, { follows: about(`log:${id}`, `job:${id}`) })
  if (problem !== null) return <Problem problem={problem} />
  if (data === null || data.lines.length === 0) return null
  const sum = (of: 'lines' | 'dropped') => data.attempts.reduce((total, one) => total + one[of], 0)
  const [kept, dropped] = [sum('lines'), sum('dropped')]
  return (
    <>
      <h2 id="log">Log</h2>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard */}
      <section class="log" aria-labelledby="log" tabIndex={0}>
        <ol>
          {data.lines.map((line) => (
            <Line key={line.seq} line={line} isNamed={data.attempts.length > 1} />
          ))}
        </ol>
      </section>
      {kept > data.lines.length && (
        <p class="quiet">
          The newest {data.lines.length} of {kept} lines.{' '}
          <CopyButton text={cliOf('jobs.logs', { id })} what="the command that prints all">
            Copy the command for all
          </CopyButton>
        </p>
      )}
      {dropped > 0 && <p class="quiet">{dropped} further lines were dropped, because an attempt logged too many.</p>}
    </>
  )
}

function Line({ line: { at, attempt, message, fields }, isNamed }: { line: LogLineView; isNamed: boolean }) {
  return (
    <li>
      <span class="quiet">
        <Clock at={at} />
        {isNamed && ` attempt ${attempt}`}
      </span>{' '}
      <span class="said">{message}</span>
      {fields !== null &&
        Object.entries(fields).map(([name, value]) => (
          <span key={name} class="quiet said">
            {' '}
            {name}={typeof value === 'string' ? value : JSON.stringify(value)}
          </span>
        ))}
    </li>
  )
}
