import { isIPv4, isIPv6 } from 'node:net'

export interface Address {
  family: 4 | 6
  bits: bigint
}

export interface Range {
  family: 4 | 6
  first: bigint
  last: bigint
}

const WIDTH = { 4: 32, 6: 128 } as const

/** null for everything that is not one plain address. One with a zone ('fe80::1%eth0') names an interface of ours. */
export function parseAddress(text: string): Address | null {
  if (isIPv4(text)) return { family: 4, bits: bitsOfV4(text) }
  if (!text.includes('%') && isIPv6(text)) return { family: 6, bits: bitsOfV6(text) }
  return null
}

/** '10.0.0.0/8', or one address. */
export function parseRange(text: string): Range | null {
  const [start = '', length, ...rest] = text.split('/')
  const address = parseAddress(start)
  if (address === null || rest.length > 0) return null
  const width = WIDTH[address.family]
  if (length !== undefined && !/^\d{1,3}$/.test(length)) return null
  const prefix = length === undefined ? width : Number(length)
  if (prefix > width) return null
  const free = BigInt(width - prefix)
  const first = (address.bits >> free) << free
  return { family: address.family, first, last: first + (1n << free) - 1n }
}

export function isIn(range: Range, { family, bits }: Address): boolean {
  return range.family === family && bits >= range.first && bits <= range.last
}

function bitsOfV4(text: string): bigint {
  return text.split('.').reduce((bits, part) => (bits << 8n) | BigInt(part), 0n)
}

function bitsOfV6(text: string): bigint {
  const [head = '', tail] = text.split('::')
  const before = groupsOf(head)
  const after = groupsOf(tail ?? '')
  const zeros = tail === undefined ? 0 : 8 - before.length - after.length
  return [...before, ...Array<bigint>(zeros).fill(0n), ...after].reduce((bits, group) => (bits << 16n) | group, 0n)
}

function groupsOf(text: string): bigint[] {
  if (text === '') return []
  return text.split(':').flatMap((group) => {
    if (!group.includes('.')) return [BigInt(`0x${group}`)]
    const bits = bitsOfV4(group)
    return [bits >> 16n, bits & 0xffffn]
  })
}
