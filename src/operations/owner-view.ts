import { actionsForOwner, type OwnerCodes, viewForOwner } from '../core/for-owner.ts'
import type { OperationName } from './catalog.ts'
import type { OutputOf } from './table.ts'

type Shown = { [Name in OperationName]?: (output: OutputOf<Name>, codes: OwnerCodes) => OutputOf<Name> }

/** Of what owners may ask for, the answers that say how a job stands. Its history is told to them by the operation itself. */
const SHOWN: Shown = {
  'jobs.list': (output, codes) => ({ ...output, jobs: output.jobs.map((job) => viewForOwner(job, codes)) }),
  'jobs.show': viewForOwner,
  'jobs.explain': (output) => ({ ...output, actions: actionsForOwner(output.actions) }),
  'jobs.retry': (output, codes) => ({ ...output, job: viewForOwner(output.job, codes) }),
  'jobs.cancel': (output, codes) => ({ ...output, job: viewForOwner(output.job, codes) }),
}

/** The answer as an owner gets it, where the operation cannot know that it is one who asks. */
export function outputForOwner(name: OperationName, output: unknown, codes: OwnerCodes): unknown {
  const show = SHOWN[name] as ((output: unknown, codes: OwnerCodes) => unknown) | undefined
  return show === undefined ? output : show(output, codes)
}
