/** Why a request was not even begun, or not carried on. Asking again changes nothing. */
export type RefusalCode =
  | 'URL_INVALID'
  | 'SCHEME_NOT_ALLOWED'
  | 'USERINFO_NOT_ALLOWED'
  | 'PORT_NOT_ALLOWED'
  | 'ADDRESS_NOT_ALLOWED'
  | 'HEADER_NOT_ALLOWED'

export interface RefusalDetails {
  host?: string
  /** For the log of the operator, and not in the message: it would tell a stranger what the inner names resolve to. */
  address?: string
  hop?: number
}

/** A request that the guard refused; nothing was sent. */
export class OutboundRefused extends Error {
  override readonly name = 'OutboundRefused'
  readonly code: RefusalCode
  readonly host: string | null
  readonly address: string | null
  /** 0 when the URL itself was refused, n when it was the target of the nth redirect. */
  readonly hop: number

  constructor(code: RefusalCode, message: string, { host, address, hop }: RefusalDetails = {}) {
    super(message)
    this.code = code
    this.host = host ?? null
    this.address = address ?? null
    this.hop = hop ?? 0
  }
}

/** A name server that does not answer is no refusal: it may answer the next time. */
export class NameNotResolved extends Error {
  override readonly name = 'NameNotResolved'
  readonly code = 'NAME_NOT_RESOLVED'
  readonly host: string

  constructor(host: string, why: string, cause?: unknown) {
    super(`${host} could not be resolved: ${why}.`, { cause })
    this.host = host
  }
}

/** Why a connection failed. */
export type ConnectCode = 'CONNECT_REFUSED' | 'CONNECT_TIMEOUT' | 'CONNECT_FAILED' | 'TLS_FAILED'

/** The origin could not be reached, or is not who it should be. */
export class ConnectFailed extends Error {
  override readonly name = 'ConnectFailed'
  readonly code: ConnectCode
  readonly host: string
  readonly address: string

  constructor(code: ConnectCode, host: string, address: string, why: string, cause?: unknown) {
    super(`${host}: ${why}.`, { cause })
    this.code = code
    this.host = host
    this.address = address
  }
}

/** Why a request through a proxy failed. */
export type ProxyCode =
  /** No connection: the name, the port, the certificate, or a timeout. */
  | 'PROXY_UNREACHABLE'
  /** 407: it does not know us. */
  | 'PROXY_AUTH'
  /** It answered, and will not connect us. */
  | 'PROXY_REFUSED'
  /** 502, 503 or 504: it works, and says that the origin does not. */
  | 'PROXY_GATEWAY'
  /** It took the connection, and said nothing in time. */
  | 'PROXY_TIMEOUT'
  /** It hung up, or said something that is no answer. */
  | 'PROXY_BROKEN'

/** The way to the origin failed: the origin was never spoken to. */
export class ProxyFailed extends Error {
  override readonly name = 'ProxyFailed'
  readonly code: ProxyCode
  /** What it answered with, if it did. */
  readonly status: number | null

  constructor(code: ProxyCode, why: string, { status, cause }: { status?: number; cause?: unknown } = {}) {
    super(`The proxy ${why}.`, { cause })
    this.code = code
    this.status = status ?? null
  }
}

/** Why a redirect was not followed. */
export type RedirectCode =
  | 'TOO_MANY_REDIRECTS'
  | 'REDIRECT_LOOP'
  | 'REDIRECT_INVALID'
  /** From https to http. */
  | 'REDIRECT_DOWNGRADE'
  /** A body is not carried to strangers. */
  | 'REDIRECT_WITH_BODY'

/** A redirect that was not followed. */
export class RedirectFailed extends Error {
  override readonly name = 'RedirectFailed'
  readonly code: RedirectCode
  /** How many redirects had been followed. */
  readonly hop: number

  constructor(code: RedirectCode, hop: number, message: string) {
    super(message)
    this.code = code
    this.hop = hop
  }
}

/** The request as a whole, with all its redirects and the body, took too long. */
export class OutboundTimeout extends Error {
  override readonly name = 'OutboundTimeout'
  readonly code = 'WHOLE_TIMEOUT'

  constructor(wholeMs: number) {
    super(`The request was not done within ${wholeMs} ms.`)
  }
}

const PHASES: Readonly<Record<string, 'connect' | 'headers' | 'body' | 'whole'>> = {
  CONNECT_TIMEOUT: 'connect',
  UND_ERR_HEADERS_TIMEOUT: 'headers',
  UND_ERR_BODY_TIMEOUT: 'body',
  WHOLE_TIMEOUT: 'whole',
}

/** Which of the four time limits ended a request; null when it was something else. */
export function timeoutPhase(error: unknown): 'connect' | 'headers' | 'body' | 'whole' | null {
  const { code } = (error ?? {}) as { code?: unknown }
  return (typeof code === 'string' && Object.hasOwn(PHASES, code) ? PHASES[code] : null) ?? null
}

export const codeOf = (error: unknown): string | undefined => {
  const { code } = (error ?? {}) as { code?: unknown }
  return typeof code === 'string' ? code : undefined
}
