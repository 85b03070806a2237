import type { ProgramLimits } from 'redress/programs'

/** Bounds for files that strangers send. */
export interface MediaLimits {
  sourceBytesMax: number
  pixelsMax: number
  sideMax: number
  durationMsMax: number
  outputBytesMax: number
  /** Address space of one program. */
  memoryBytes: number
  probeTimeoutMs: number
  /** For an encode, the decode pass that verifies it, or the reading of a suspect. */
  workTimeoutMs: number
}

const DEFAULTS: MediaLimits = {
  sourceBytesMax: 20 * 2 ** 30,
  pixelsMax: 8192 * 4320,
  sideMax: 16_384,
  durationMsMax: 4 * 60 * 60_000,
  outputBytesMax: 20 * 2 ** 30,
  memoryBytes: 4 * 2 ** 30,
  probeTimeoutMs: 30_000,
  workTimeoutMs: 60 * 60_000,
}

export function mediaLimits(given: Partial<MediaLimits> = {}): MediaLimits {
  return { ...DEFAULTS, ...given }
}

/** Only Linux has the program that sets them. Other systems have only the time limits. */
export function kernelLimits({ memoryBytes, outputBytesMax, workTimeoutMs }: MediaLimits): ProgramLimits {
  if (process.platform !== 'linux') return {}
  // All cores together cannot use more than this in the time that is allowed, unless something spins.
  const cpuSeconds = Math.ceil((workTimeoutMs / 1000) * 4)
  return { memoryBytes, fileBytes: outputBytesMax, cpuSeconds, openFiles: 64 }
}
