import { actionsForOwner, viewForOwner } from '../core/for-owner.ts'
import type { OperationName } from './catalog.ts'
import type { OutputOf } from './table.ts'

type Shown = { [Name in OperationName]?: (output: OutputOf<Name>) => OutputOf<Name> }

/** Of what owners may ask for, the answers that say how a job stands. Its history is told to them by the operation itself. */
const SHOWN: Shown = {
  'jobs.list': (output) => ({ ...output, jobs: output.jobs.map(viewForOwner) }),
  'jobs.show': viewForOwner,
  'jobs.explain': (output) => ({ ...output, actions: actionsForOwner(output.actions) }),
  'jobs.retry': (output) => ({ ...output, job: viewForOwner(output.job) }),
  'jobs.cancel': (output) => ({ ...output, job: viewForOwner(output.job) }),
}

/** The answer as an owner gets it, where the operation cannot know that it is one who asks. */
export function outputForOwner(name: OperationName, output: unknown): unknown {
  const show = SHOWN[name] as ((output: unknown) => unknown) | undefined
  return show === undefined ? output : show(output)
}
