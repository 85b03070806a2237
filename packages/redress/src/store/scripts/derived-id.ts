import { createHash } from 'node:crypto'

/** A UUID (version 8) that is the same for the same parts, so a job that is derived from one thing exists once. */
export function derivedId(...parts: readonly (string | number)[]): string {
  const bytes = createHash('sha256').update(JSON.stringify(parts)).digest().subarray(0, 16)
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x80
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80
  const hex = bytes.toString('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}

/** The id of the job that a settlement of a batch submits: one per settlement. */
export const settledJobId = (batchId: string, settlement: number): string =>
  derivedId('batch', batchId, 'settled', settlement)
