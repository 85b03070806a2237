import { readFileSync } from 'node:fs'
import { isIP, Socket } from 'node:net'
import { type ConnectionOptions, checkServerIdentity, connect } from 'node:tls'
import { RedressError } from '../../../core/errors.ts'

/** The modes of libpq, from the weakest to the strongest. */
const MODES = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'] as const
type SslMode = (typeof MODES)[number]

/** How connections to the server are encrypted. */
export interface Tls {
  mode: SslMode
  /** Which parts of the server's certificate are checked. */
  checks: 'nothing' | 'authority' | 'authority and name'
  /** TLS begins with the first byte, without a request to the server (direct negotiation). */
  isDirect: boolean
  options: ConnectionOptions
}

/** The TLS parameters of an address, which the client must not send to the server. */
export const TLS_PARAMETERS = [
  ...['sslmode', 'ssl', 'sslrootcert', 'sslcert', 'sslkey', 'sslpassword', 'sslnegotiation'],
  ...['sslcertmode', 'sslcompression', 'sslsni', 'sslcrl', 'sslcrldir', 'ssl_min_protocol_version'],
] as const

const UNSUPPORTED = ['sslcertmode', 'sslcrl', 'sslcrldir', 'ssl_min_protocol_version'] as const
const SYSTEM = 'system'
const HANDSHAKE_MS_MAX = 10_000

const invalid = (message: string, action: string): RedressError =>
  new RedressError('OPTION_INVALID', message, { action })

/** `?sslmode=verify-full&sslrootcert=/etc/ssl/ca.pem`, or the environment, with the names and the meaning of libpq. */
export function tlsOf(url: string): Tls {
  const { PGSSLMODE, PGSSLROOTCERT, PGSSLCERT, PGSSLKEY } = process.env
  const root = parameterOf(url, 'sslrootcert') ?? PGSSLROOTCERT ?? null
  const mode = modeOf(
    parameterOf(url, 'sslmode') ?? parameterOf(url, 'ssl') ?? PGSSLMODE ?? null,
    root === SYSTEM ? 'verify-full' : 'prefer',
  )
  if (root === SYSTEM && mode !== 'verify-full' && mode !== 'disable') {
    throw invalid(
      `sslrootcert=system needs sslmode=verify-full; got sslmode=${mode}.`,
      'Anyone can get a certificate of a public authority for their own name, so the name must be checked.',
    )
  }
  for (const name of UNSUPPORTED) {
    if (parameterOf(url, name) === null) continue
    throw invalid(`${name} in the address of the store is not supported.`, 'Remove it from the address.')
  }
  const cert = parameterOf(url, 'sslcert') ?? PGSSLCERT ?? null
  const key = parameterOf(url, 'sslkey') ?? PGSSLKEY ?? null
  if ((cert === null) !== (key === null)) {
    throw invalid('A client certificate needs both sslcert and sslkey.', 'Name the files of both, or of neither.')
  }
  const passphrase = parameterOf(url, 'sslpassword')
  const isFile = root !== null && root !== SYSTEM
  // With a CA given, `require` checks the certificate, as libpq does.
  const checks =
    mode === 'verify-full'
      ? 'authority and name'
      : mode === 'verify-ca' || (mode === 'require' && isFile)
        ? 'authority'
        : 'nothing'
  return {
    ...{ mode, checks, isDirect: negotiationOf(url, mode) === 'direct' },
    options: {
      rejectUnauthorized: checks !== 'nothing',
      ...(mode !== 'disable' && isFile && { ca: fileOf('sslrootcert', root) }),
      ...(mode !== 'disable' && cert !== null && { cert: fileOf('sslcert', cert) }),
      ...(mode !== 'disable' && key !== null && { key: fileOf('sslkey', key) }),
      ...(passphrase !== null && { passphrase }),
    },
  }
}

function modeOf(text: string | null, otherwise: SslMode): SslMode {
  if (text === null || text === '') return otherwise
  // The spelling of other Node.js clients.
  const named = { true: 'verify-full', false: 'disable', '1': 'verify-full', '0': 'disable' }[text] ?? text
  const mode = MODES.find((one) => one === named)
  if (mode !== undefined) return mode
  throw invalid(
    `sslmode must be one of ${MODES.join(', ')}; got ${JSON.stringify(text)}.`,
    'Use verify-full with sslrootcert=FILE to check the certificate of the server and its name.',
  )
}

function negotiationOf(url: string, mode: SslMode): 'postgres' | 'direct' {
  const text = parameterOf(url, 'sslnegotiation') ?? 'postgres'
  if (text === 'postgres') return text
  if (text !== 'direct') {
    throw invalid(`sslnegotiation must be postgres or direct; got ${JSON.stringify(text)}.`, 'Leave it out.')
  }
  if (MODES.indexOf(mode) >= MODES.indexOf('require')) return text
  throw invalid('sslnegotiation=direct needs sslmode=require or stronger.', 'Add sslmode=verify-full.')
}

function fileOf(name: string, path: string): Buffer {
  try {
    return readFileSync(path)
  } catch (error) {
    throw new RedressError(
      'OPTION_INVALID',
      `${name} names ${path}, which cannot be read: ${(error as Error).message}.`,
      { cause: error, action: 'Check the path and the permissions of the file.' },
    )
  }
}

/** The SSLRequest message: its length, and a code in place of a protocol version. */
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f])

/**
 * The socket for the client, encrypted as the mode requires. The client always gets a socket; a failure is reported
 * when that socket closes.
 */
export async function secured(plain: Socket, host: string, tls: Tls): Promise<Socket> {
  if (tls.mode === 'disable') return plain
  try {
    const isOffered = tls.isDirect || (await isTlsOffered(plain))
    if (!isOffered) {
      if (tls.mode === 'allow' || tls.mode === 'prefer') return plain
      throw Object.assign(new Error(`the server does not offer TLS, and sslmode=${tls.mode} needs it`), {
        code: 'ERR_TLS_NOT_OFFERED',
      })
    }
    return connect({
      ...tls.options,
      socket: plain,
      ...(isIP(host) === 0 && { servername: host }),
      ...(tls.isDirect && { ALPNProtocols: ['postgresql'] }),
      checkServerIdentity: (_name, certificate) =>
        tls.checks === 'authority and name' ? checkServerIdentity(host, certificate) : undefined,
    })
  } catch (error) {
    plain.destroy()
    const failed = new Socket()
    setImmediate(() => failed.destroy(error as Error))
    return failed
  }
}

function isTlsOffered(socket: Socket): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      end()
      reject(Object.assign(new Error('the server did not answer'), { code: 'CONNECT_TIMEOUT' }))
    }, HANDSHAKE_MS_MAX)
    const end = (): void => {
      clearTimeout(timer)
      socket.off('data', onData).off('error', onError).off('close', onClose)
    }
    const onError = (error: Error): void => {
      end()
      reject(error)
    }
    const onClose = (): void =>
      onError(Object.assign(new Error('the server closed the connection'), { code: 'ECONNRESET' }))
    const onData = (data: Buffer): void => {
      end()
      // Reject more than one byte: a man in the middle could inject data that would be taken for the server's TLS
      // data.
      if (data.length === 1 && data[0] === 0x53) resolve(true)
      else if (data.length === 1 && data[0] === 0x4e) resolve(false)
      else reject(Object.assign(new Error('the server does not speak the protocol of PostgreSQL'), { code: 'EPROTO' }))
    }
    socket.on('data', onData).on('error', onError).on('close', onClose)
    socket.write(SSL_REQUEST)
  })
}

/** For the doctor: whether connections leave this machine. */
export const isLocal = (host: string): boolean =>
  host === 'localhost' || host === '::1' || host.startsWith('/') || /^127\./.test(host)

/** The query string of an address. */
export const queryOf = (url: string): string => /\?([^#]*)/.exec(url)?.[1] ?? ''

/** The value of a query parameter of an address; null if it is missing. */
export const parameterOf = (url: string, name: string): string | null => new URLSearchParams(queryOf(url)).get(name)
