import { addressOf } from '../../words/address.ts'

/** The address of the jobs that a line finds, from a place on. */
export const listHref = (line: string, cursor?: string): string =>
  addressOf('/jobs', { q: line, ...(cursor !== undefined && { cursor }) })
