import { basename, extname, join } from 'node:path'
import type { Profile, ResolvedProfile } from './profiles.ts'
import type { JobSpec } from './spec.ts'

/** `index` counts from 1, with zeros before it; `source_name` is the file's name without its extension. */
export const PLACEHOLDERS = ['index', 'source_name', 'profile'] as const
type Placeholder = (typeof PLACEHOLDERS)[number]

export const NAMING_CHARS_MAX = 200
/** 255 is what file systems take, and while it is made an output has the id of its job behind its name. */
const NAME_BYTES_MAX = 200
const INDEX_DIGITS_MIN = 3

const isPlaceholder = (name: string): name is Placeholder => (PLACEHOLDERS as readonly string[]).includes(name)

/** The problem of a pattern, independent of the clips. */
export function namingProblem(naming: string, clips: number): string | null {
  const used = [...naming.matchAll(/\{([^{}]*)\}/g)].map(([, name = '']) => name)
  const known = PLACEHOLDERS.map((name) => `{${name}}`).join(', ')
  const unknown = used.find((name) => !isPlaceholder(name))
  if (unknown !== undefined) return `{${unknown}} is no placeholder; there are ${known}`
  if (/[{}]/.test(naming.replace(/\{[^{}]*\}/g, ''))) return `has a brace that opens or closes nothing`
  if (/[/\\]/.test(naming)) return 'must be a name and no path'
  if (/\p{Cc}/u.test(naming)) return 'must have no control characters'
  if (clips > 1 && !used.includes('index') && !used.includes('source_name')) {
    return `must contain {index} or {source_name} where there are several clips`
  }
  return null
}

/** The names of all outputs, in the order of the sources. */
export function outputNames(naming: string, sources: readonly string[], { name, extension }: Profile): string[] {
  const digits = Math.max(INDEX_DIGITS_MIN, String(sources.length).length)
  const ending = `.${extension}`
  return sources.map((source, at) => {
    const values: Record<Placeholder, string> = {
      index: String(at + 1).padStart(digits, '0'),
      source_name: basename(source, extname(source)),
      profile: name,
    }
    const stem = naming.replace(/\{([^{}]*)\}/g, (_, key: Placeholder) => values[key])
    return stem.toLowerCase().endsWith(ending) ? stem : stem + ending
  })
}

/** The problems of the resulting names, by the number of the source. */
export function nameProblems(names: readonly string[]): { at: number; message: string }[] {
  const seen = new Map<string, number>()
  return names.flatMap((name, at) => {
    const message = nameProblem(name)
    if (message !== null)
      return [{ at, message: `the output would be called ${JSON.stringify(name)}, which ${message}` }]
    // Some file systems treat these names as equal.
    const folded = name.normalize('NFC').toLowerCase()
    const other = seen.get(folded)
    seen.set(folded, other ?? at)
    return other === undefined ? [] : [{ at, message: `would be called ${name}, as is the output of source ${other}` }]
  })
}

function nameProblem(name: string): string | null {
  if (/[/\\]/.test(name)) return 'is a path'
  if (/\p{Cc}/u.test(name) || !name.isWellFormed()) return 'has characters that no name should have'
  if (name.startsWith('.')) return 'would be hidden'
  if (Buffer.byteLength(name) > NAME_BYTES_MAX) return `is longer than ${NAME_BYTES_MAX} bytes`
  return null
}

/**
 * The name of an output while it is made, and permanently if its job fails. It does not look finished, no program
 * opens it by its extension, and the job id keeps it unique.
 */
const partialName = (name: string, jobId: string): string => `${name}.${jobId}.partial`

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

/** Uses the real directory that was found when the job began, so a link that changes later has no effect. */
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
