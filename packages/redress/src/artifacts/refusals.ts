import { RedressError } from '../core/errors.ts'

export function artifactNotFound(key: string, cause?: unknown): RedressError {
  return new RedressError('ARTIFACT_NOT_FOUND', `There is no artifact at ${key}.`, { cause })
}

export function artifactExists(key: string, cause?: unknown): RedressError {
  return new RedressError('ARTIFACT_EXISTS', `There is an artifact at ${key} already.`, { cause })
}

export function artifactCorrupt(key: string): RedressError {
  return new RedressError('ARTIFACT_CORRUPT', `${key} is not what was stored: its checksum differs.`)
}

export function rangeInvalid(key: string, start: number, end: number | undefined): RedressError {
  return new RedressError('ARTIFACT_RANGE_INVALID', `${key} has no bytes from ${start} to ${end ?? 'its end'}.`)
}
