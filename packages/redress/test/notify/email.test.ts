import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { someDelivery, someNotice } from '../../../../test/support/deliveries.ts'
import { freePort, type MailServer, mailServer } from '../../../../test/support/servers/smtp.ts'
import type { Delivery } from '../../src/app/channels.ts'
import { type EmailOptions, email } from '../../src/notify/email.ts'

const deliver = (
  { port }: Pick<MailServer, 'port'>,
  options: Partial<EmailOptions> = {},
  delivery: Delivery = someDelivery(),
  notice = someNotice(),
) => {
  const { smtp, ...rest } = options
  const connection = { host: '127.0.0.1', port, ...smtp }
  const channel = email({ from: 'redress@example.org', to: () => 'ann@example.com', ...rest, smtp: connection })
  return (async () => channel.deliver(notice, delivery))()
}

describe('a mail', () => {
  test('arrives as it was meant, in plain words, and says that a machine sent it', async () => {
    const server = await mailServer()
    const from = { name: 'Redress “ops”', address: 'redress@example.org' }
    const delivered = await deliver(server, { from, to: () => ({ name: 'Änne', address: 'ann@example.com' }) })
    expect(delivered).toMatchObject({ to: ['ann@example.com'], answer: '250 2.0.0 taken as 1', refused: [], later: [] })
    const [mail] = server.mails
    expect(mail).toMatchObject({ from: 'redress@example.org', to: ['ann@example.com'] })
    expect(mail?.parsed).toMatchObject({
      subject: 'pdf.convert failed: GW_5XX',
      from,
      to: [{ name: 'Änne', address: 'ann@example.com' }],
      messageId: '<0190a000-0000-8000-8000-00000000000d@example.org>',
    })
    expect(mail?.parsed.text).toContain('GW_5XX: Grüße: it broke.')
    const headers = Object.fromEntries(mail?.parsed.headers.map(({ key, value }) => [key, value]) ?? [])
    expect(headers['auto-submitted']).toBe('auto-generated')
  })

  test('has the same Message-ID on every attempt', async () => {
    const server = await mailServer()
    await deliver(server)
    await deliver(server, {}, someDelivery({ attempt: 2 }))
    const [first, second] = server.mails.map(({ parsed }) => parsed.messageId)
    expect(first).toBe(second)
  })

  test('can be in words of one’s own, with HTML, and to somebody who has to be looked up', async () => {
    const server = await mailServer()
    const render = async () => ({ subject: 'Обновление', text: 'plain', html: '<p>rich</p>' })
    await deliver(server, { render, to: async () => 'ann@example.com' })
    expect(server.mails[0]?.parsed).toMatchObject({ subject: 'Обновление', text: 'plain\n', html: '<p>rich</p>\n' })
  })

  test('cannot be given headers, recipients or files by what it says', async () => {
    const server = await mailServer()
    const evil = 'hello\r\nBcc: eve@example.com\r\n\r\nforged body'
    const name = 'Ann <eve@example.com>, "x\r\nBcc: eve@example.com'
    const render = () => ({ subject: evil, text: '.\r\nQUIT\r\n.hidden', path: '/etc/passwd' })
    await deliver(server, { render, to: () => ({ name, address: 'ann@example.com' }) })
    const [mail] = server.mails
    expect(mail?.to).toEqual(['ann@example.com'])
    expect(mail?.parsed.subject).toBe('hello Bcc: eve@example.com forged body')
    expect(mail?.parsed.bcc ?? []).toEqual([])
    expect(mail?.parsed.to?.map(({ address }) => address)).toEqual(['ann@example.com'])
    expect(mail?.parsed.text).toBe('.\nQUIT\n.hidden\n')
    expect(mail?.raw).not.toContain('root:')
  })

  test('that is endless is cut, and endless HTML is left out', async () => {
    const server = await mailServer()
    const render = () => ({ subject: 'ü'.repeat(10_000), text: 'x\n'.repeat(500_000), html: 'y'.repeat(900_000) })
    await deliver(server, { render })
    const { parsed } = server.mails[0] ?? { parsed: { subject: '', text: '', html: 'none' } }
    expect(parsed.subject?.length).toBe(250)
    expect(parsed.text?.length).toBeLessThan(210_000)
    expect(parsed.html).toBeUndefined()
  })

  test('goes encrypted and with a login where the server has them', async () => {
    const login = { user: 'redress', pass: 'hush-hush' }
    const server = await mailServer({ login, hasTls: true })
    const smtp = { host: '127.0.0.1', auth: login, requireTLS: true, tls: { rejectUnauthorized: false } }
    await deliver(server, { smtp })
    expect(server.mails[0]).toMatchObject({ isSecure: true, user: 'redress' })
  })
})

describe('whom to tell', () => {
  test('nobody: then there is nothing to send, and no server is asked', async () => {
    const port = await freePort()
    for (const to of [() => null, () => []]) {
      expect(await deliver({ port }, { to })).toEqual({ to: [], answer: 'there was no recipient' })
    }
  })

  test('several: each gets a mail of their own, and sees nobody else', async () => {
    const server = await mailServer()
    const delivered = await deliver(server, { to: () => ['ann@example.com', 'bob@example.com', 'ann@example.com'] })
    expect(delivered.to).toEqual(['ann@example.com', 'bob@example.com'])
    expect(server.mails.map(({ to }) => to)).toEqual([['ann@example.com'], ['bob@example.com']])
    expect(server.mails[0]?.raw).not.toContain('bob@example.com')
  })

  test('only the rest, when the others were reached before', async () => {
    const server = await mailServer()
    const to = () => ['ann@example.com', 'bob@example.com']
    await deliver(server, { to }, someDelivery({ only: ['bob@example.com'] }))
    expect(server.mails.map((mail) => mail.to)).toEqual([['bob@example.com']])
  })

  test.each([
    'no address',
    'Ann <ann@example.com>',
    'ann@example.com, eve@example.com',
    'ann@example.com\r\nRCPT TO:<eve@example.com>',
    'ann@',
    '@example.com',
    'ann@exa mple.com',
    `${'a'.repeat(400)}@example.com`,
    7,
  ])('%j is nobody: it is refused before any server is asked, for good', async (address) => {
    const port = await freePort()
    await expect(deliver({ port }, { to: () => address as string })).rejects.toMatchObject({
      code: 'RECIPIENT_INVALID',
    })
  })

  test('one that is no address does not keep the others from hearing', async () => {
    const server = await mailServer()
    const delivered = await deliver(server, { to: () => ['ann@example.com', 'nobody', 'bob@example.com'] })
    expect(delivered).toMatchObject({
      to: ['ann@example.com', 'bob@example.com'],
      refused: [{ to: '"nobody"', answer: 'no address' }],
    })
  })

  test('a failed lookup of recipients and an invalid mail fail as NOTICE_UNRENDERABLE', async () => {
    const port = await freePort()
    const to = () => Promise.reject(new Error('the accounts are down'))
    await expect(deliver({ port }, { to })).rejects.toMatchObject({ code: 'NOTICE_UNRENDERABLE' })
    const render = () => ({ subject: 1 }) as never
    await expect(deliver({ port }, { render })).rejects.toMatchObject({ code: 'NOTICE_UNRENDERABLE' })
  })
})

describe('when it does not go through', () => {
  test('4xx is not now, 5xx is never', async () => {
    const server = await mailServer({
      onRecipient: (address) =>
        address.startsWith('full') ? { status: 452, text: 'mailbox full' } : { status: 550, text: 'no such user' },
    })
    await expect(deliver(server, { to: () => 'full@example.com' })).rejects.toMatchObject({
      code: 'RECIPIENT_DEFERRED',
      context: { to: ['full@example.com'], answer: '452 mailbox full' },
    })
    await expect(deliver(server, { to: () => 'gone@example.com' })).rejects.toMatchObject({
      code: 'RECIPIENT_REFUSED',
      context: { answer: '550 no such user' },
    })
  })

  test('each recipient has their own answer: who was reached, who never will be, and who later', async () => {
    const server = await mailServer({
      onRecipient: (address) => {
        if (address.startsWith('full')) return { status: 452, text: 'mailbox full' }
        return address.startsWith('gone') ? { status: 550, text: 'no such user' } : undefined
      },
    })
    const to = () => ['gone@example.com', 'full@example.com', 'ann@example.com']
    expect(await deliver(server, { to })).toMatchObject({
      to: ['ann@example.com'],
      refused: [{ to: 'gone@example.com', answer: '550 no such user' }],
      later: ['full@example.com'],
    })
  })

  test('a slow server causes no duplicates: recipients without an answer in time are tried later', async () => {
    const now = vi.spyOn(performance, 'now').mockReturnValue(0)
    onTestFinished(() => now.mockRestore())
    const server = await mailServer({ onMessage: async () => void now.mockReturnValue(now() + 40_000) })
    const to = () => ['ann@example.com', 'bob@example.com', 'cleo@example.com', 'dan@example.com']
    expect(await deliver(server, { to })).toMatchObject({
      to: ['ann@example.com', 'bob@example.com'],
      later: ['cleo@example.com', 'dan@example.com'],
    })
    expect(server.mails).toHaveLength(2)
  })

  test('also the message itself may be put off or refused', async () => {
    const busy = await mailServer({ onMessage: async () => ({ status: 451, text: 'busy' }) })
    await expect(deliver(busy)).rejects.toMatchObject({ code: 'RECIPIENT_DEFERRED' })
    const picky = await mailServer({ onMessage: async () => ({ status: 554, text: 'looks like spam' }) })
    await expect(deliver(picky)).rejects.toMatchObject({ code: 'RECIPIENT_REFUSED' })
  })

  test('a server that is not there is asked once for all, and later again', async () => {
    const port = await freePort()
    const to = () => ['ann@example.com', 'bob@example.com']
    const failed = expect(deliver({ port }, { to })).rejects
    await failed.toMatchObject({ code: 'CHANNEL_DOWN', context: { to: to() } })
  })

  test('a server that says nothing is given up after its time', async () => {
    const server = await mailServer({ onMessage: () => new Promise(() => undefined) })
    const smtp = { host: '127.0.0.1', timeout: '100ms' }
    await expect(deliver(server, { smtp })).rejects.toMatchObject({ code: 'CHANNEL_DOWN' })
  })

  test('a wrong login is the operator’s to mend, and the password is not in what is said', async () => {
    const server = await mailServer({ login: { user: 'redress', pass: 'right-one' }, hasTls: true })
    const auth = { user: 'redress', pass: 'the-wrong-one' }
    const smtp = { host: '127.0.0.1', auth, tls: { rejectUnauthorized: false } }
    const error = await deliver(server, { smtp }).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'SENDER_REFUSED' })
    const { message, context, stack } = error as Error & { context: object }
    const said = JSON.stringify([message, context, stack])
    expect(said).not.toContain('the-wrong-one')
    expect(said).not.toContain(Buffer.from('\0redress\0the-wrong-one').toString('base64'))
  })

  test('a certificate without a trusted issuer is refused', async () => {
    const server = await mailServer({ hasTls: true })
    await expect(deliver(server)).rejects.toMatchObject({ code: 'CHANNEL_DOWN' })
    expect(server.mails).toEqual([])
  })
})

test.each([
  ['from', { from: 'nobody' }],
  ['smtp.host', { smtp: { host: '' } }],
  ['to must be a function', { to: 'ann@example.com' as never }],
  ['smtp.timeout', { smtp: { host: 'h', timeout: 'soon' } }],
])('a channel that could never send is refused when it is declared: %s', (word, parts) => {
  const options = { from: 'redress@example.org', to: () => null, smtp: { host: 'localhost' }, ...parts }
  expect(() => email(options)).toThrow(word)
})
