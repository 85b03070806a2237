import { join } from 'node:path'
import { outputNames, partialName } from '../spec/naming.ts'
import type { ResolvedProfile } from '../spec/profiles.ts'
import type { JobSpec } from '../spec/spec.ts'

/** One clip of a job. */
export interface Clip {
  /** From 1, as people count. */
  number: number
  source: string
  name: string
  /** Where it is delivered. */
  target: string
  /** Where it is made. */
  partial: string
}

/** In the directory that was found behind the name when the job began: a link that is changed meanwhile leads nobody astray. */
export function clipsOf(
  { sources, output }: JobSpec,
  profile: ResolvedProfile,
  jobId: string,
  directory: string,
): Clip[] {
  return outputNames(output.naming, sources, profile).map((name, at) => ({
    number: at + 1,
    source: sources[at] as string,
    name,
    target: join(directory, name),
    partial: join(directory, partialName(name, jobId)),
  }))
}
