import { describe, expect, test } from 'vitest'
import { parseAddress, parseRange } from '../../src/outbound/addresses.ts'
import { isGlobalAddress } from '../../src/outbound/index.ts'

/** First and last address of each closed range, and its neighbours outside, where those are open. */
const V4: [range: string, first: string, last: string, before: string | null, after: string | null][] = [
  ['0.0.0.0/8', '0.0.0.0', '0.255.255.255', null, '1.0.0.0'],
  ['10.0.0.0/8', '10.0.0.0', '10.255.255.255', '9.255.255.255', '11.0.0.0'],
  ['100.64.0.0/10', '100.64.0.0', '100.127.255.255', '100.63.255.255', '100.128.0.0'],
  ['127.0.0.0/8', '127.0.0.0', '127.255.255.255', '126.255.255.255', '128.0.0.0'],
  ['168.63.129.16/32', '168.63.129.16', '168.63.129.16', '168.63.129.15', '168.63.129.17'],
  ['169.254.0.0/16', '169.254.0.0', '169.254.255.255', '169.253.255.255', '169.255.0.0'],
  ['172.16.0.0/12', '172.16.0.0', '172.31.255.255', '172.15.255.255', '172.32.0.0'],
  ['192.0.0.0/24', '192.0.0.0', '192.0.0.255', '191.255.255.255', '192.0.1.0'],
  ['192.0.2.0/24', '192.0.2.0', '192.0.2.255', '192.0.1.255', '192.0.3.0'],
  ['192.31.196.0/24', '192.31.196.0', '192.31.196.255', '192.31.195.255', '192.31.197.0'],
  ['192.52.193.0/24', '192.52.193.0', '192.52.193.255', '192.52.192.255', '192.52.194.0'],
  ['192.88.99.0/24', '192.88.99.0', '192.88.99.255', '192.88.98.255', '192.88.100.0'],
  ['192.168.0.0/16', '192.168.0.0', '192.168.255.255', '192.167.255.255', '192.169.0.0'],
  ['192.175.48.0/24', '192.175.48.0', '192.175.48.255', '192.175.47.255', '192.175.49.0'],
  ['198.18.0.0/15', '198.18.0.0', '198.19.255.255', '198.17.255.255', '198.20.0.0'],
  ['198.51.100.0/24', '198.51.100.0', '198.51.100.255', '198.51.99.255', '198.51.101.0'],
  ['203.0.113.0/24', '203.0.113.0', '203.0.113.255', '203.0.112.255', '203.0.114.0'],
  ['224.0.0.0/3', '224.0.0.0', '255.255.255.255', '223.255.255.255', null],
]

const V6: typeof V4 = [
  ['::/3', '::', '1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff', null, '2000::'],
  ['2001::/23', '2001::', '2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff', '2000:ffff::', '2001:200::'],
  ['2001:db8::/32', '2001:db8::', '2001:db8:ffff:ffff:ffff:ffff:ffff:ffff', '2001:db7:ffff::', '2001:db9::'],
  ['2002::/16', '2002::', '2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff', '2001:ffff::', '2003::'],
  ['2620:4f:8000::/48', '2620:4f:8000::', '2620:4f:8000:ffff:ffff:ffff:ffff:ffff', '2620:4f:7fff::', '2620:4f:8001::'],
  ['3fff::/20', '3fff::', '3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff', '3ffe:ffff::', '3fff:1000::'],
  ['4000::/2', '4000::', '7fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff', '3fff:ffff::', null],
  ['8000::/1', '8000::', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff', null, null],
]

describe('an address is on the internet', () => {
  test.each([...V4, ...V6])('unless it is in %s', (_, first, last, before, after) => {
    expect([isGlobalAddress(first), isGlobalAddress(last)]).toEqual([false, false])
    for (const neighbour of [before, after]) if (neighbour !== null) expect(isGlobalAddress(neighbour)).toBe(true)
  })

  const known: [what: string, address: string][] = [
    ['metadata of clouds', '169.254.169.254'],
    ['metadata over IPv6', 'fd00:ec2::254'],
    ['metadata of another cloud', '100.100.100.200'],
    ['the container metadata', '169.254.170.2'],
    ['broadcast', '255.255.255.255'],
    ['all hosts', '224.0.0.1'],
    ['all nodes', 'ff02::1'],
    ['this machine', '::1'],
    ['nothing', '::'],
    ['a link', 'fe80::1'],
    ['a link, with the interface', 'fe80::1%eth0'],
    ['a site, as it was once', 'fec0::1'],
    ['discarding', '100::1'],
    ['segment routing', '5f00::1'],
    ['Teredo', '2001:0:4136:e378:8000:63bf:3fff:fdd2'],
    ['ORCHID', '2001:20::1'],
    ['benchmarks', '2001:2::1'],
  ]
  test.each(known)('not %s (%s)', (_, address) => {
    expect(isGlobalAddress(address)).toBe(false)
  })

  test('not what is no plain address at all', () => {
    for (const text of [
      '',
      'localhost',
      '127.1',
      '0x7f.0.0.1',
      '1.2.3',
      '1.2.3.4.5',
      '1.2.3.4/32',
      '[::1]',
      ' 1.1.1.1',
    ]) {
      expect([text, isGlobalAddress(text)]).toEqual([text, false])
    }
  })

  /** The same IPv4 address inside, in each form that something on the way could take for it. */
  const forms: [what: string, form: (hex: string) => string, whenPublic: boolean][] = [
    ['mapped', (hex) => `::ffff:${hex}`, false],
    ['compatible', (hex) => `::${hex}`, false],
    ['translated', (hex) => `::ffff:0:${hex}`, false],
    ['NAT64', (hex) => `64:ff9b::${hex}`, true],
    ['NAT64 inside a network', (hex) => `64:ff9b:1::${hex}`, false],
    ['6to4', (hex) => `2002:${hex}::1`, false],
    ['ISATAP', (hex) => `2606:2800::5efe:${hex}`, true],
    ['ISATAP of a global one', (hex) => `2606:2800::200:5efe:${hex}`, true],
  ]
  test.each(forms)(
    'in the form %s only if the address inside is, and the form is one in use',
    (_, form, whenPublic) => {
      for (const inner of ['7f00:1', 'a00:1', 'a9fe:a9fe', 'c0a8:101', '0:0', 'e000:1', '6440:1']) {
        expect(isGlobalAddress(form(inner))).toBe(false)
      }
      expect(isGlobalAddress(form('5db8:d70e'))).toBe(whenPublic)
    },
  )
})

describe('an address is read', () => {
  test('alike in all its spellings', () => {
    const bits = parseAddress('2001:db8::1:0:0:1')?.bits
    for (const text of ['2001:0db8:0:0:1::1', '2001:DB8:0:0:1:0:0:1', '2001:db8::1:0:0.0.0.1']) {
      expect(parseAddress(text)?.bits).toBe(bits)
    }
    expect(parseAddress('::ffff:1.2.3.4')?.bits).toBe(0xffff_0102_0304n)
    expect(parseAddress('1::')?.bits).toBe(1n << 112n)
  })

  test('and a range with all that is in it', () => {
    expect(parseRange('10.1.2.3/8')).toEqual({ family: 4, first: 0x0a00_0000n, last: 0x0aff_ffffn })
    expect(parseRange('0.0.0.0/0')).toEqual({ family: 4, first: 0n, last: 0xffff_ffffn })
    expect(parseRange('::1')).toEqual({ family: 6, first: 1n, last: 1n })
    for (const text of [
      '10.0.0.0/33',
      '::/129',
      '10.0.0.0/',
      '10.0.0.0/8/8',
      '10.0.0.0/-1',
      '10/8',
      'x/8',
      '1.1.1.1/a',
    ]) {
      expect([text, parseRange(text)]).toEqual([text, null])
    }
  })
})
