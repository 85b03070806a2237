import { actionsForOwner, type IsMapped, type OwnerCodes, viewForOwner } from '../../core/views/for-owner.ts'
import type { OperationName } from '../catalog.ts'
import type { OutputOf } from '../table.ts'

type Shown = { [Name in OperationName]?: (output: OutputOf<Name>, codes: OwnerCodes) => OutputOf<Name> }

/** Answers about the state of a job, as owners see them. Operations filter the history themselves. */
const SHOWN: Shown = {
  'jobs.list': (output, codes) => ({ ...output, jobs: output.jobs.map((job) => viewForOwner(job, codes)) }),
  'jobs.show': viewForOwner,
  'jobs.explain': (output) => ({ ...output, actions: actionsForOwner(output.actions) }),
  'jobs.retry': (output, codes) => ({ ...output, job: viewForOwner(output.job, codes) }),
  'jobs.cancel': (output, codes) => ({ ...output, job: viewForOwner(output.job, codes) }),
}

interface Codes {
  forOwner: OwnerCodes
  isMapped: IsMapped
}

type Perform = (name: OperationName, input: object) => Promise<unknown>

/** Runs owner requests that need the owner's view, where the operation cannot know that the caller is an owner. */
export async function performForOwner(
  perform: Perform,
  name: OperationName,
  input: Readonly<Record<string, unknown>>,
  codes: Codes,
): Promise<unknown> {
  const { code, ...rest } = input
  const run = async (asked: object, as = name) => {
    const output = await perform(as, asked)
    const show = SHOWN[as] as ((output: unknown, codes: OwnerCodes) => unknown) | undefined
    return show === undefined ? output : show(output, codes.forOwner)
  }
  if ((name !== 'jobs.list' && name !== 'jobs.count') || typeof code !== 'string' || !codes.isMapped(code)) {
    return run(input)
  }
  // Owners filter by the code that they see. The stored code differs, so their failed jobs are scanned.
  const list = async (asked: object) => {
    const listed = (await run({ status: 'failed', ...rest, ...asked }, 'jobs.list')) as OutputOf<'jobs.list'>
    return { ...listed, jobs: listed.jobs.filter(({ errorCode }) => errorCode === code) }
  }
  if (name === 'jobs.list') return list({})
  let [count, cursor]: [number, string | null] = [0, null]
  for (let page = 0; page < COUNTED_PAGES_MAX; page++) {
    const listed: OutputOf<'jobs.list'> = await list({ limit: PAGE_MAX, ...(cursor !== null && { cursor }) })
    count += listed.jobs.length
    cursor = listed.nextCursor
    if (cursor === null) break
  }
  return { count, isMore: cursor !== null }
}

const PAGE_MAX = 1_000
const COUNTED_PAGES_MAX = 10
