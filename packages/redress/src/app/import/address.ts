import { RedressError } from '../../core/errors.ts'
import { shownLocation } from '../store/open-store.ts'

/** The option of `redress import` that says where a source is. */
export interface AddressOption {
  name: '--redis' | '--from'
  scheme: RegExp
  example: string
}

export const REDIS_OPTION: AddressOption = {
  name: '--redis',
  scheme: /^rediss?:\/\//,
  example: 'redis://user@host:6379',
}

export const FROM_OPTION: AddressOption = {
  name: '--from',
  scheme: /^postgres(ql)?:\/\//,
  example: 'postgres://user@host:5432/name',
}

/** The address for messages, without its password. */
export const shownAddress = shownLocation

const PORT_MAX = 65_535

/** Opens a client. Clients parse the address when they are made, and their errors name neither the option nor the part. */
export async function withValidAddress<T>(option: AddressOption, url: string, open: () => T | Promise<T>): Promise<T> {
  const problem = spaceProblem(url) ?? hostProblem(url)
  if (problem !== null) throw invalidAddress(option, url, problem)
  try {
    return await open()
  } catch (error) {
    const isOfAddress = error instanceof URIError || (error as { code?: unknown } | null)?.code === 'ERR_INVALID_URL'
    throw isOfAddress ? invalidAddress(option, url, escapeProblem(url) ?? 'it cannot be parsed', error) : error
  }
}

const spaceProblem = (url: string): string | null => (/\s/.test(url) ? 'it contains a space' : null)

function hostProblem(url: string): string | null {
  const { hosts = '', rest = '' } = /^[^:]+:\/\/(?:[^/?#]*@)?(?<hosts>[^/?#]*)(?<rest>.*)$/.exec(url)?.groups ?? {}
  if (hosts === '' && rest === '') return 'the host is missing'
  // A password with an unescaped / or #: its first part looks like a port, and must not be shown.
  if (rest.includes('@')) return null
  for (const host of hosts.split(',')) {
    const port = /:([^:\]]*)$/.exec(host)?.[1] ?? ''
    if (!/^\d*$/.test(port)) return `the port "${port}" is not a number`
    if (Number(port) > PORT_MAX) return `the port ${port} is higher than ${PORT_MAX}`
  }
  return null
}

function escapeProblem(url: string): string | null {
  try {
    decodeURIComponent(url)
    return null
  } catch {
    return 'a % in it does not begin an escape such as %25'
  }
}

const invalidAddress = ({ name, example }: AddressOption, url: string, problem: string, cause?: unknown) =>
  new RedressError('OPTION_INVALID', `${name} is not a valid address: ${problem}. Got ${shownAddress(url)}.`, {
    ...(cause !== undefined && { cause }),
    action: `Write it like ${example}. In the user and the password, write % as %25, @ as %40, / as %2F, # as %23 and a space as %20.`,
  })

/** A message of a server as the end of a sentence: some end with a period already. */
export const withoutPeriod = (message: string): string => message.trim().replace(/\.+$/, '')
