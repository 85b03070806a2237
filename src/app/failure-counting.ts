import { foldAll } from '../store/failure-groups.ts'
import type { Duty } from '../worker/duty.ts'
import type { AppHost } from './host.ts'

const EVERY_MS = 15_000

/** Counts failures into their groups now and then, so that whoever looks at the groups finds little left to count. */
export function failureCounting(host: AppHost): Duty {
  return {
    name: 'counting failures',
    everyMs: EVERY_MS,
    run: async () => foldAll(await host.store()),
  }
}
