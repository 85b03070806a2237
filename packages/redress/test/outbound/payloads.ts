/** What people write who want to get inside. Everything is made from tables: addresses, their spellings, URLs around. */

export const INSIDE_V4 = [
  '127.0.0.1',
  '127.1.2.3',
  '127.255.255.254',
  '0.0.0.0',
  '10.0.0.1',
  '10.255.255.254',
  '172.16.0.1',
  '172.31.255.254',
  '192.168.0.1',
  '192.168.255.254',
  '169.254.169.254',
  '169.254.170.2',
  '100.64.0.1',
  '100.100.100.200',
  '168.63.129.16',
  '192.0.0.192',
  '192.0.2.1',
  '198.18.0.1',
  '198.51.100.7',
  '203.0.113.9',
  '224.0.0.1',
  '240.0.0.1',
  '255.255.255.255',
] as const

export const INSIDE_V6 = [
  '::',
  '::1',
  'fe80::1',
  'fe80::5efe:a00:1',
  'fec0::1',
  'fc00::1',
  'fd00:ec2::254',
  'fd20:ce::254',
  'ff02::1',
  'ff05::2',
  '100::1',
  '100:0:0:1::1',
  '5f00::1',
  '64:ff9b:1::a00:1',
  '2001::1',
  '2001:2::1',
  '2001:10::1',
  '2001:20::1',
  '2001:db8::1',
  '2002:7f00:1::1',
  '3fff::1',
  '2606:2800::5efe:7f00:1',
  '2606:2800::200:5efe:c0a8:1',
  '4000::1',
  'fe00::1',
] as const

const bytesOf = (address: string): number[] => address.split('.').map(Number)
const whole = (address: string): number => bytesOf(address).reduce((sum, byte) => sum * 256 + byte, 0)
const groupsOf = (address: string): [high: string, low: string] => {
  const text = whole(address).toString(16).padStart(8, '0')
  return [text.slice(0, 4), text.slice(4)]
}
const joined = (address: string, write: (byte: number) => string, dot = '.'): string =>
  bytesOf(address).map(write).join(dot)
const digits = (address: string, zero: number): string =>
  address.replace(/\d/g, (digit) => String.fromCodePoint(zero + Number(digit)))
const circled = (address: string): string =>
  address.replace(/\d/g, (digit) => String.fromCodePoint(digit === '0' ? 0x24ea : 0x245f + Number(digit)))
const percented = (text: string): string =>
  [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('')

/** Spellings that the parser of URLs reads as the address itself. */
export const SPELLINGS: Readonly<Record<string, (address: string) => string>> = {
  plain: (address) => address,
  'dot at the end': (address) => `${address}.`,
  'one number': (address) => String(whole(address)),
  'one number in hex': (address) => `0x${whole(address).toString(16)}`,
  'one number in HEX': (address) => `0X${whole(address).toString(16).toUpperCase()}`,
  'one number in octal': (address) => `0${whole(address).toString(8)}`,
  'one number in hex with zeros': (address) => `0x00000000${whole(address).toString(16)}`,
  'parts in hex': (address) => joined(address, (byte) => `0x${byte.toString(16)}`),
  'parts in octal': (address) => joined(address, (byte) => `0${byte.toString(8)}`),
  'parts in octal with zeros': (address) => joined(address, (byte) => `00000${byte.toString(8)}`),
  'parts of all kinds': (address) => {
    const [a, b, c, d] = bytesOf(address) as [number, number, number, number]
    return `0x${a.toString(16)}.0${b.toString(8)}.${c}.0x${d.toString(16)}`
  },
  'three parts': (address) => {
    const [a, b, c, d] = bytesOf(address) as [number, number, number, number]
    return `${a}.${b}.${c * 256 + d}`
  },
  'two parts': (address) => `${bytesOf(address)[0]}.${whole(address) % 2 ** 24}`,
  'two parts in hex': (address) =>
    `0x${bytesOf(address)[0]?.toString(16)}.0x${(whole(address) % 2 ** 24).toString(16)}`,
  'wide digits': (address) => digits(address, 0xff10),
  'bold digits': (address) => digits(address, 0x1d7ce),
  'circled digits': circled,
  'wide dots': (address) => address.replaceAll('.', '\uff0e'),
  'ideographic dots': (address) => address.replaceAll('.', '\u3002'),
  'half-width dots': (address) => address.replaceAll('.', '\uff61'),
  'percent everywhere': percented,
  'percent for dots': (address) => address.replaceAll('.', '%2e'),
  'percent for wide dots': (address) => address.replaceAll('.', encodeURIComponent('\uff0e')),
  'a soft hyphen': (address) => address.replace('.', '\u00ad.'),
  'a space of no width': (address) => address.replace('.', '.\u200b'),
  'a tab inside': (address) => address.replace('.', '\t.'),
  'a new line inside': (address) => address.replace('.', '.\r\n'),
}

/** IPv6 addresses that lead to the IPv4 address, or that something on the way could take for it. */
export const DISGUISES: Readonly<Record<string, (address: string) => string>> = {
  mapped: (address) => `[::ffff:${address}]`,
  'mapped in hex': (address) => `[::ffff:${groupsOf(address).join(':')}]`,
  'mapped at full length': (address) => `[0000:0000:0000:0000:0000:FFFF:${groupsOf(address).join(':')}]`,
  compatible: (address) => `[::${address}]`,
  translated: (address) => `[::ffff:0:${address}]`,
  NAT64: (address) => `[64:ff9b::${address}]`,
  'NAT64 in hex': (address) => `[64:ff9b::${groupsOf(address).join(':')}]`,
  'NAT64 of the network': (address) => `[64:ff9b:1::${address}]`,
  '6to4': (address) => `[2002:${groupsOf(address).join(':')}::]`,
  Teredo: (address) => {
    const hidden = groupsOf(address).map((group) => (0xffff ^ Number.parseInt(group, 16)).toString(16))
    return `[2001:0:4136:e378:8000:63bf:${hidden.join(':')}]`
  },
  ISATAP: (address) => `[2606:2800:1:1:0:5efe:${groupsOf(address).join(':')}]`,
  'ISATAP on a link': (address) => `[fe80::5efe:${address}]`,
}

/** URLs that go to the host that is given, however they look. */
export const WRAPPINGS: Readonly<Record<string, (host: string) => string>> = {
  https: (host) => `https://${host}/`,
  'no slashes': (host) => `http:${host}/`,
  'one slash': (host) => `http:/${host}/`,
  'four slashes': (host) => `http:////${host}/`,
  backslashes: (host) => `http:\\\\${host}\\`,
  'both slashes': (host) => `http:/\\${host}/`,
  'loud scheme': (host) => `HtTp://${host}/`,
  'space around': (host) => `  http://${host}/ `,
  'control characters around': (host) => `\u0001\u001fhttp://${host}/\u0000`,
  'tab in the scheme': (host) => `ht\ttp://${host}/`,
  'new lines in the slashes': (host) => `http:/\n/\r${host}/`,
  'a friend as the user': (host) => `http://good.example@${host}/`,
  'a friend with a password': (host) => `http://good.example:80@${host}/`,
  'a friend before many signs': (host) => `http://good.example@@${host}/`,
  'a friend in percents': (host) => `http://good.example%2f@${host}/`,
  'nobody as the user': (host) => `http://@${host}/`,
  'a friend in the fragment': (host) => `http://${host}#@good.example/`,
  'a friend in the query': (host) => `http://${host}?@good.example/`,
  'a friend behind a backslash': (host) => `http://${host}\\@good.example/`,
  'a friend in the path': (host) => `http://${host}/@good.example:80/../..//good.example`,
}

export const OTHER_SCHEMES = [
  'file:///etc/passwd',
  'file://127.0.0.1/etc/passwd',
  'ftp://127.0.0.1/',
  'gopher://127.0.0.1:6379/_INFO',
  'dict://127.0.0.1:11211/stats',
  'ldap://127.0.0.1/',
  'tftp://127.0.0.1/a',
  'ws://127.0.0.1/',
  'wss://127.0.0.1/',
  'jar:http://127.0.0.1!/',
  'view-source:http://127.0.0.1/',
  'data:text/html,hello',
  'javascript:alert(1)',
  'blob:http://127.0.0.1/1',
  'about:blank',
  'netdoc:///etc/passwd',
  'unix:/var/run/docker.sock',
  'http+unix://%2fvar%2frun%2fdocker.sock/',
] as const

export const CLOSED_PORTS = [
  0, 1, 21, 22, 23, 25, 53, 81, 110, 143, 389, 445, 873, 2049, 2375, 2379, 3306, 3389, 4444, 5432, 5601, 5984, 6379,
  6443, 8000, 8080, 8443, 8500, 9000, 9090, 9200, 10250, 11211, 15672, 27017, 50070, 65535,
] as const

/** The same address in other words. */
export const SPELLINGS_V6: Readonly<Record<string, (address: string) => string>> = {
  short: (address) => `[${address}]`,
  long: (address) => `[${fullLength(address)}]`,
  loud: (address) => `[${fullLength(address).toUpperCase()}]`,
  'with dots': (address) => {
    const groups = fullLength(address).split(':')
    const bytes = groups.slice(6).flatMap((group) => [group.slice(0, 2), group.slice(2)])
    return `[${groups.slice(0, 6).join(':')}:${bytes.map((byte) => Number.parseInt(byte, 16)).join('.')}]`
  },
}

function fullLength(address: string): string {
  const [head = '', tail = ''] = address.split('::')
  const [before, after] = [head, tail].map((part) => part.split(':').filter(Boolean)) as [string[], string[]]
  const zeros = Array<string>(8 - before.length - after.length).fill('0')
  return [...before, ...zeros, ...after].map((group) => group.padStart(4, '0')).join(':')
}
