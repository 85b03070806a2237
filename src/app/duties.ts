import type { Duty } from '../worker/duty.ts'
import type { AppHost } from './host.ts'

/** What every worker of an app does beside running jobs. */
export function dutiesOf(_host: AppHost): Duty[] {
  return []
}
