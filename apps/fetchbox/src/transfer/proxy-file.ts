import { readFile } from 'node:fs/promises'
import { RedressError } from 'redress'

/** Proxies that belong together, by the name that operators know: "proxies/eu-primary". */
interface ProxyPool {
  pool: string
  /** `http://user:pass@host:port`; with https the proxy itself is spoken to over TLS. */
  urls: readonly string[]
}

/** Pools in tiers: the next tier is used while the one before has nothing usable. */
export type ProxyTiers = readonly (readonly ProxyPool[])[]

const POOL_NAME = /^[A-Za-z0-9][A-Za-z0-9._/-]{0,99}$/

export async function readProxies(path: string): Promise<ProxyTiers> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (cause) {
    const errno = (cause as { code?: string }).code ?? 'an error'
    throw invalid([`cannot be read (${errno})`], cause)
  }
  return parseProxies(text)
}

/** Every mistake is named, none with the URL in it: it may hold a password. */
export function parseProxies(text: string): ProxyTiers {
  let given: unknown
  try {
    given = JSON.parse(text)
  } catch {
    // The parser's own sentence repeats a part of the text.
    throw invalid(['is not valid JSON'])
  }
  const tiers = (given as { tiers?: unknown } | null)?.tiers
  if (!Array.isArray(tiers) || tiers.length === 0) throw invalid(['needs "tiers", a list of lists of pools'])
  const names = new Set<string>()
  const problems = tiers.flatMap((tier, at) => tierProblems(tier, `tiers[${at}]`, names))
  if (problems.length > 0) throw invalid(problems)
  return tiers as ProxyTiers
}

function tierProblems(tier: unknown, at: string, names: Set<string>): string[] {
  if (!Array.isArray(tier) || tier.length === 0) return [`${at} must be a list of pools`]
  return tier.flatMap((pool, n) => poolProblems(pool, `${at}[${n}]`, names))
}

function poolProblems(given: unknown, at: string, names: Set<string>): string[] {
  const { pool, urls } = (given ?? {}) as { pool?: unknown; urls?: unknown }
  const problems: string[] = []
  if (typeof pool !== 'string' || !POOL_NAME.test(pool))
    problems.push(`${at}.pool must be a name: letters, digits, . _ / -`)
  else if (names.has(pool)) problems.push(`${at}.pool: there are two pools of the name ${pool}`)
  else names.add(pool)
  if (!Array.isArray(urls) || urls.length === 0) return [...problems, `${at}.urls must be a list of URLs`]
  const wrong = urls.flatMap((url, n) =>
    isProxyUrl(url) ? [] : [`${at}.urls[${n}] must be http://[user:pass@]host:port`],
  )
  return [...problems, ...wrong]
}

function isProxyUrl(url: unknown): boolean {
  const parsed = typeof url === 'string' ? URL.parse(url) : null
  return parsed !== null && /^https?:$/.test(parsed.protocol) && parsed.pathname === '/' && parsed.search === ''
}

function invalid(problems: readonly string[], cause?: unknown): RedressError {
  return new RedressError('OPTION_INVALID', `The file of proxies is not valid: it ${problems.join('; ')}.`, {
    problems,
    ...(cause !== undefined && { cause }),
  })
}
