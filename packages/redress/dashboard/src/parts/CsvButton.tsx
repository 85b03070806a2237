import { useState } from 'preact/hooks'
import type { JobView } from '../../../src/core/views/job.ts'
import { perform, Refused } from '../api/perform.ts'
import { csvOf } from '../words/csv.ts'
import { some } from '../words/numbers.ts'
import { announce } from './announce.ts'

const COLUMNS = ['id', 'type', 'owner', 'code', 'message', 'attempts', 'failedAt'] as const
const PER_PAGE = 1_000

const rowOf = ({ id, type, owner, errorCode, errorMessage, attemptCount, failedAt }: JobView) => ({
  ...{ id, type, owner, code: errorCode, message: errorMessage, attempts: attemptCount, failedAt },
})

async function failedOf(batch: string): Promise<JobView[]> {
  const found: JobView[] = []
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const input = { batch, status: 'failed', limit: PER_PAGE, ...(cursor !== undefined && { cursor }) } as const
    const page: { jobs: JobView[]; nextCursor: string | null } = await perform('jobs.list', input)
    found.push(...page.jobs)
    cursor = page.nextCursor
  }
  return found
}

/** The failed jobs of a batch as a file for a spreadsheet: all of them, also those on other pages. */
export function CsvButton({ batch }: { batch: string }) {
  const [isBusy, setBusy] = useState(false)
  const make = async (): Promise<void> => {
    setBusy(true)
    try {
      const jobs = await failedOf(batch)
      save(csvOf(COLUMNS, jobs.map(rowOf)), `failed-of-${batch}.csv`)
      announce(`Wrote ${some(jobs.length, 'failed job')} to failed-of-${batch}.csv.`)
    } catch (error) {
      announce(error instanceof Refused ? error.message : String(error), 'bad')
    } finally {
      setBusy(false)
    }
  }
  return (
    <button type="button" class="plain small" disabled={isBusy} onClick={() => void make()}>
      {isBusy ? 'Reading …' : 'Failed jobs as CSV'}
    </button>
  )
}

function save(text: string, name: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: 'text/csv;charset=utf-8' }))
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  URL.revokeObjectURL(url)
}
