import { createServer } from 'node:net'
import PostalMime, { type Email } from 'postal-mime'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'
import { onTestFinished } from 'vitest'

interface ReceivedMail {
  from: string
  to: string[]
  isSecure: boolean
  user: string | null
  raw: string
  parsed: Email
}

export interface MailServer {
  port: number
  mails: ReceivedMail[]
  /** Recipients in the order in which they were asked for, also those that were refused. */
  asked: string[]
  close(): Promise<void>
}

interface MailServerOptions {
  port?: number
  /** What to answer to a recipient; undefined = accept. */
  onRecipient?: (address: string, times: number) => { status: number; text: string } | undefined
  /** What to answer to a message; undefined = accept. A promise makes the server slow. */
  onMessage?: (times: number) => Promise<{ status: number; text: string } | undefined> | undefined
  login?: { user: string; pass: string }
  /** Offer STARTTLS, with a certificate that nobody has signed. */
  hasTls?: boolean
}

/** A real SMTP server, of the author of the mailer but another program, on a port of its own. */
export async function mailServer(options: MailServerOptions = {}): Promise<MailServer> {
  const { login, onRecipient, onMessage, hasTls = false } = options
  const mails: ReceivedMail[] = []
  const asked: string[] = []
  let messages = 0
  const refused = ({ status, text }: { status: number; text: string }) =>
    Object.assign(new Error(text), { responseCode: status })
  const settings: SMTPServerOptions = {
    authOptional: login === undefined,
    allowInsecureAuth: true,
    disabledCommands: hasTls ? [] : ['STARTTLS'],
    logger: false,
    onAuth(auth, _session, callback) {
      if (auth.username === login?.user && auth.password === login?.pass) callback(null, { user: auth.username })
      else callback(refused({ status: 535, text: '5.7.8 wrong name or password' }))
    },
    onRcptTo({ address }, _session, callback) {
      asked.push(address)
      const answer = onRecipient?.(address, asked.filter((one) => one === address).length)
      callback(answer === undefined ? null : refused(answer))
    },
    onData(stream, session, callback) {
      const parts: Buffer[] = []
      stream.on('data', (part: Buffer) => parts.push(part))
      stream.on('end', async () => {
        const answer = await onMessage?.(++messages)
        if (answer !== undefined) return callback(refused(answer))
        const raw = Buffer.concat(parts)
        const { mailFrom, rcptTo } = session.envelope
        mails.push({
          from: mailFrom === false ? '' : mailFrom.address,
          to: rcptTo.map(({ address }) => address),
          isSecure: session.secure,
          user: typeof session.user === 'string' ? session.user : null,
          raw: raw.toString('latin1'),
          parsed: await PostalMime.parse(raw),
        })
        callback(null, `2.0.0 taken as ${mails.length}`)
      })
    },
  }
  const server = new SMTPServer(settings)
  // A client that goes away in the middle is no trouble of the test.
  server.on('error', () => undefined)
  await new Promise<void>((resolve) => server.listen(options.port ?? 0, '127.0.0.1', resolve))
  const close = () => new Promise<void>((resolve) => server.close(() => resolve()))
  onTestFinished(close)
  const { port } = server.server.address() as { port: number }
  return { port, mails, asked, close }
}

/** A port on which nobody listens. */
export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}
