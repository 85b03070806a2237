import { domainToASCII } from 'node:url'
import { oneLine } from '../core/text/printable.ts'
import { clip } from '../core/text/redact.ts'

/** A bare address, or one with a name beside it. Never 'Name <address>': a name could then bring addresses of its own. */
export type Address = string | { name: string; address: string }

export interface CheckedAddress {
  name: string
  address: string
}

const ADDRESS_CHARS_MAX = 320
const NAME_CHARS_MAX = 200
/** One address and nothing else: what could end a header or a command, or begin another address, is not in it. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
const BARE = /^[^\s@<>()[\]\\,;:"\u0000-\u001f\u007f]+@[^\s@<>()[\]\\,;:"\u0000-\u001f\u007f]+$/u

/** null when it is no address. */
export function readAddress(value: unknown): CheckedAddress | null {
  const { name, address } =
    typeof value === 'object' && value !== null ? (value as CheckedAddress) : { name: '', address: value }
  if (typeof address !== 'string' || typeof name !== 'string') return null
  const bare = address.trim()
  if (bare.length > ADDRESS_CHARS_MAX || !BARE.test(bare) || domainOf(bare) === '') return null
  return { name: clip(oneLine(name), NAME_CHARS_MAX), address: bare }
}

/** As it is written in headers; '' when it is no domain. */
export const domainOf = (address: string): string => domainToASCII(address.slice(address.lastIndexOf('@') + 1))
