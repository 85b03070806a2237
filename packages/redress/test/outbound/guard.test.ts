import { describe, expect, test } from 'vitest'
import { type OutboundOptions, OutboundRefused, outboundGuard } from '../../src/outbound/index.ts'
import { resolver, thrownBy } from './world.ts'

const PUBLIC = '93.184.215.14'

function refusalOf(url: string | URL, options: OutboundOptions = {}): string | null {
  try {
    outboundGuard(options).check(url)
    return null
  } catch (error) {
    if (error instanceof OutboundRefused) return error.code
    throw error
  }
}

const resolved = (url: string, options: OutboundOptions) => outboundGuard(options).resolve(new URL(url))

describe('a URL', () => {
  const cases: [url: string, refusal: string | null][] = [
    ['http://example.org/a?b#c', null],
    ['https://example.org', null],
    ['HTTPS://EXAMPLE.org:443/', null],
    [`http://${PUBLIC}/`, null],
    ['http://[2606:2800:21f::1]/', null],
    ['http://localhost/', null],
    ['', 'URL_INVALID'],
    ['example.org', 'URL_INVALID'],
    ['http://', 'URL_INVALID'],
    ['http:///', 'URL_INVALID'],
    ['http://a b/', 'URL_INVALID'],
    ['http://[::1', 'URL_INVALID'],
    ['http://[fe80::1%25eth0]/', 'URL_INVALID'],
    ['http://1.2.3.4.5/', 'URL_INVALID'],
    ['http://256.1.1.1/', 'URL_INVALID'],
    ['http://example.org:99999/', 'URL_INVALID'],
    ['http://./', 'URL_INVALID'],
    ['http://a..b/', 'URL_INVALID'],
    [`http://${'a'.repeat(64)}.example/`, 'URL_INVALID'],
    [`http://${'a.'.repeat(127)}example/`, 'URL_INVALID'],
    [`http://example.org/${'a'.repeat(8_192)}`, 'URL_INVALID'],
    ['ftp://example.org/', 'SCHEME_NOT_ALLOWED'],
    ['file:///etc/passwd', 'SCHEME_NOT_ALLOWED'],
    ['data:text/plain,a', 'SCHEME_NOT_ALLOWED'],
    ['gopher://127.0.0.1:6379/_x', 'SCHEME_NOT_ALLOWED'],
    ['ws://example.org/', 'SCHEME_NOT_ALLOWED'],
    ['blob:http://example.org/1', 'SCHEME_NOT_ALLOWED'],
    ['http://a@example.org/', 'USERINFO_NOT_ALLOWED'],
    ['http://:b@example.org/', 'USERINFO_NOT_ALLOWED'],
    ['http://example.org@127.0.0.1/', 'USERINFO_NOT_ALLOWED'],
    ['http://example.org:22/', 'PORT_NOT_ALLOWED'],
    ['http://example.org:0/', 'PORT_NOT_ALLOWED'],
    [`http://${PUBLIC}:8080/`, 'PORT_NOT_ALLOWED'],
    ['http://127.0.0.1/', 'ADDRESS_NOT_ALLOWED'],
    ['http://127.0.0.1:22/', 'ADDRESS_NOT_ALLOWED'],
    ['http://[::1]/', 'ADDRESS_NOT_ALLOWED'],
  ]
  test.each(cases)('%j: %s', (url, refusal) => {
    expect(refusalOf(url)).toBe(refusal)
  })

  test('that was parsed already is judged as it is, and not changed', () => {
    const url = new URL('http://example.org/a')
    expect(outboundGuard().check(url)).toEqual(url)
    expect(outboundGuard().check(url)).not.toBe(url)
    url.hostname = '127.0.0.1'
    expect(refusalOf(url)).toBe('ADDRESS_NOT_ALLOWED')
  })

  test('is refused in words that a stranger may read: what a name resolves to is not among them', async () => {
    const error = (await thrownBy(
      resolved('http://db.example/', resolver({ 'db.example': ['10.20.30.40'] })),
    )) as OutboundRefused
    expect(error.message).toBe('db.example may not be reached: not all of its addresses are open to requests.')
    expect(error).toMatchObject({ code: 'ADDRESS_NOT_ALLOWED', host: 'db.example', address: '10.20.30.40', hop: 0 })
    expect(() => outboundGuard().check('http://10.0.0.1/')).toThrow('10.0.0.1 may not be reached: it is private.')
  })
})

describe('a name', () => {
  test('is good when all of its addresses are, and they are kept in their order', async () => {
    const names = resolver({ 'a.example': [PUBLIC, '2606:2800::1', PUBLIC] })
    expect(await resolved('https://a.example/', names)).toEqual({
      address: PUBLIC,
      family: 4,
      port: 443,
      others: [{ address: '2606:2800::1', family: 6 }],
    })
  })

  test.each([
    ['127.0.0.1'],
    [PUBLIC, '127.0.0.1'],
    ['::1', PUBLIC],
    ['fe80::1%eth0'],
    ['not an address'],
    ['::ffff:8.8.8.8'],
  ])('is refused with %s, %s', async (...addresses) => {
    const names = resolver({ 'a.example': addresses })
    await expect(resolved('http://a.example/', names)).rejects.toMatchObject({ code: 'ADDRESS_NOT_ALLOWED' })
  })

  test('of this machine is resolved like others, and refused for what it means', async () => {
    for (const name of ['localhost', 'localhost.', 'LOCALHOST', 'x.localhost']) {
      const names = resolver({ localhost: ['127.0.0.1'], 'x.localhost': ['::1'] })
      await expect(resolved(`http://${name}/`, names)).rejects.toMatchObject({ code: 'ADDRESS_NOT_ALLOWED' })
      expect(names.asked).toHaveLength(1)
    }
    // By the resolver of the system, too.
    await expect(resolved('http://localhost/', {})).rejects.toMatchObject({ code: 'ADDRESS_NOT_ALLOWED' })
  })

  test('is judged again when it is resolved, by whoever asks', async () => {
    await expect(resolved('http://127.0.0.1/', {})).rejects.toMatchObject({ code: 'ADDRESS_NOT_ALLOWED' })
    await expect(resolved('ftp://a.example/', {})).rejects.toMatchObject({ code: 'SCHEME_NOT_ALLOWED' })
  })

  test('that cannot be looked up is no refusal', async () => {
    await expect(resolved('http://nobody.example/', resolver({}))).rejects.toMatchObject({
      name: 'NameNotResolved',
      code: 'NAME_NOT_RESOLVED',
      message: 'nobody.example could not be resolved: ENOTFOUND.',
    })
  })
})

describe('what an operator opens', () => {
  const names = resolver({ 'inner.example': ['10.0.0.1'], 'mixed.example': ['10.0.0.1', '192.168.0.1'] })
  const cases: [allow: string, url: string, refusal: string | null][] = [
    ['127.0.0.1', 'http://127.0.0.1/', null],
    ['127.0.0.1', 'http://127.0.0.1:8080/', 'PORT_NOT_ALLOWED'],
    ['127.0.0.1', 'http://127.0.0.2/', 'ADDRESS_NOT_ALLOWED'],
    ['127.0.0.1', 'http://[::ffff:127.0.0.1]/', 'ADDRESS_NOT_ALLOWED'],
    ['127.0.0.1', 'http://[64:ff9b::127.0.0.1]/', 'ADDRESS_NOT_ALLOWED'],
    ['127.0.0.1:8080', 'http://127.0.0.1:8080/', null],
    ['127.0.0.1:8080', 'http://127.0.0.1/', 'ADDRESS_NOT_ALLOWED'],
    ['127.0.0.1:8080', 'http://127.0.0.2:8080/', 'ADDRESS_NOT_ALLOWED'],
    [`${PUBLIC}:8080`, `http://${PUBLIC}:8080/`, null],
    [`${PUBLIC}:8080`, 'http://93.184.215.15:8080/', 'PORT_NOT_ALLOWED'],
    [`${PUBLIC}:8080`, `http://${PUBLIC}/`, null],
    ['10.0.0.0/8', 'http://10.255.0.1/', null],
    ['10.0.0.0/8', 'http://11.0.0.1/', null],
    ['10.0.0.0/8', 'http://192.168.0.1/', 'ADDRESS_NOT_ALLOWED'],
    ['10.0.0.0/8:8080', 'http://10.1.1.1:8080/', null],
    ['10.0.0.0/8:8080', 'http://10.1.1.1/', 'ADDRESS_NOT_ALLOWED'],
    ['10.0.0.0/8', 'http://inner.example/', null],
    ['10.0.0.0/8', 'http://mixed.example/', 'ADDRESS_NOT_ALLOWED'],
    ['10.0.0.0/8:8080', 'http://inner.example:8080/', null],
    ['10.0.0.0/8:8080', 'http://mixed.example:8080/', 'ADDRESS_NOT_ALLOWED'],
    ['192.168.0.0/16:8080', 'http://inner.example:8080/', 'ADDRESS_NOT_ALLOWED'],
    ['::1', 'http://[::1]/', null],
    ['[::1]', 'http://[::1]/', null],
    ['[::1]:8080', 'http://[::1]:8080/', null],
    ['fd00::/8', 'http://[fd00:ec2::254]/', null],
    ['[fd00::]/8', 'http://[fd12::1]/', null],
    ['inner.example', 'http://inner.example/', null],
    ['inner.example', 'http://inner.example./', null],
    ['Inner.Example.', 'http://INNER.example/', null],
    ['inner.example', 'http://10.0.0.1/', 'ADDRESS_NOT_ALLOWED'],
    ['inner.example', 'http://mixed.example/', 'ADDRESS_NOT_ALLOWED'],
    ['inner.example:8080', 'http://inner.example:8080/', null],
    ['inner.example:8080', 'http://inner.example/', 'ADDRESS_NOT_ALLOWED'],
    ['inner.example:8080', 'http://mixed.example:8080/', 'PORT_NOT_ALLOWED'],
  ]
  test.each(cases)('%s, for %s: %s', async (allow, url, refusal) => {
    const asked = resolved(url, { allow: [allow], lookup: names.lookup })
    if (refusal === null) expect(await asked).toHaveProperty('address')
    else await expect(asked).rejects.toMatchObject({ code: refusal })
  })

  test('as ports is open everywhere on the internet, and nowhere else', async () => {
    expect(refusalOf(`http://${PUBLIC}:8080/`, { ports: [8080] })).toBeNull()
    expect(refusalOf(`http://${PUBLIC}/`, { ports: [8080] })).toBe('PORT_NOT_ALLOWED')
    expect(refusalOf('http://127.0.0.1:8080/', { ports: [8080] })).toBe('ADDRESS_NOT_ALLOWED')
  })

  test('is closed again by deny, whatever form the address has', async () => {
    const options = { allow: ['10.0.0.0/8'], deny: ['10.0.0.5', '93.184.0.0/16', 'evil.example', '10.0.0.6:80'] }
    const denied = ['http://10.0.0.5/', 'http://10.0.0.6/', `http://${PUBLIC}/`, `http://[64:ff9b::${PUBLIC}]/`]
    for (const url of denied) expect(refusalOf(url, options)).toBe('ADDRESS_NOT_ALLOWED')
    expect(refusalOf('https://10.0.0.6/', options)).toBeNull()
    const evil = resolver({ 'evil.example': ['8.8.8.8'] })
    await expect(resolved('http://evil.example/', { ...options, ...evil })).rejects.toMatchObject({
      code: 'ADDRESS_NOT_ALLOWED',
    })
  })

  test.each([
    '',
    '*',
    '*.example',
    '10.0.0.0/33',
    '127.0.0.1:0',
    '127.0.0.1:65536',
    'a b',
    'http://a',
    '0x7f.1',
    '[::1]x',
  ])('must be something that can be opened: %j is not', (entry) => {
    expect(() => outboundGuard({ allow: [entry] })).toThrow(/^outbound: allow has /)
    expect(() => outboundGuard({ deny: [entry] })).toThrow(/^outbound: deny has /)
  })

  test('a port outside 1 to 65535 is refused', () => {
    for (const port of [0, 65_536, 1.5, Number.NaN])
      expect(() => outboundGuard({ ports: [port] })).toThrow(/invalid port/)
  })
})
