import { RedressError } from '../../core/errors.ts'
import type { ServerOptions } from '../../http/server.ts'
import { type OptionSpec, ownOption, type Parsed } from '../language/parse.ts'

export const HTTP_OPTIONS: readonly OptionSpec[] = [
  ownOption('port', 'number', 'port to listen on, 0 for any free port; else $REDRESS_PORT', { fallback: '7373' }),
  ownOption('host ADDRESS', 'text', 'address to listen on; else $REDRESS_HOST', { fallback: '127.0.0.1' }),
  ownOption('public-url URL', 'text', 'public address of the server behind a proxy; else $REDRESS_PUBLIC_URL'),
  ownOption('allowed-host NAME', 'text', 'additional host name that requests may use; repeatable', { isList: true }),
  ownOption(
    'trust-proxy HOPS',
    'text',
    'trust X-Forwarded-For from this many proxies, or from these addresses (10.0.0.0/8,127.0.0.1); 1 without a value',
    { bare: '1' },
  ),
  ownOption('no-auth', 'flag', 'no sign-in: everyone who reaches the server has full access; only on this machine'),
  ownOption('no-worker', 'flag', 'serve HTTP only, run no jobs'),
  ownOption('no-http', 'flag', 'run jobs only, serve no HTTP'),
  ownOption('no-retry', 'flag', 'exit if the store cannot be reached, instead of retrying'),
]

export interface HttpChoice {
  server: Pick<ServerOptions, 'host' | 'port' | 'publicUrl' | 'allowedHosts' | 'auth' | 'trustProxy'> | null
  hasWorker: boolean
  /** A store that is away is asked again. */
  isRetried: boolean
}

const PORT_MAX = 65_535

export function readHttpOptions(values: Parsed['values']): HttpChoice {
  const hasWorker = values['no-worker'] !== true
  if (values['no-http'] === true) {
    if (hasWorker) return { server: null, hasWorker, isRetried: false }
    throw new RedressError('USAGE', '--no-worker and --no-http cannot be combined: nothing would start.', {
      action: 'Remove one of them.',
    })
  }
  const { REDRESS_PORT, REDRESS_HOST, REDRESS_PUBLIC_URL } = process.env
  const host = text(values.host) ?? (REDRESS_HOST || undefined)
  const publicUrl = text(values['public-url']) ?? (REDRESS_PUBLIC_URL || undefined)
  const trustProxy = text(values['trust-proxy'])
  const port = text(values.port) ?? (REDRESS_PORT || undefined)
  return {
    server: {
      ...(host !== undefined && { host }),
      ...(publicUrl !== undefined && { publicUrl }),
      ...(port !== undefined && { port: checkedPort(port, values.port === undefined ? 'REDRESS_PORT' : '--port') }),
      allowedHosts: (text(values['allowed-host']) ?? '').split(',').filter((name) => name !== ''),
      auth: values['no-auth'] === true ? 'none' : 'required',
      ...(trustProxy !== undefined && { trustProxy }),
    },
    hasWorker,
    isRetried: values['no-retry'] !== true,
  }
}

const text = (value: string | boolean | undefined): string | undefined =>
  typeof value === 'string' ? value : undefined

function checkedPort(given: string, where: string): number {
  const port = Number(given)
  if (/^\d+$/.test(given) && port <= PORT_MAX) return port
  throw new RedressError(
    'OPTION_INVALID',
    `${where} must be a port from 0 to ${PORT_MAX}, not ${JSON.stringify(given)}.`,
  )
}
