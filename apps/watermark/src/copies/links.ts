import { createHmac, timingSafeEqual } from 'node:crypto'

/** How long a counted download may be resumed. */
const GRANT_MS = 6 * 3_600_000

/** Makes and checks links and proofs of counted downloads. Each is signed, so that none can be guessed. */
export interface Links {
  /** '/d/ID.SIGNATURE' */
  pathOf(tokenId: string): string
  /** The token of a link that we made; null for every other text. */
  tokenOf(link: string): string | null
  grant(tokenId: string, nowMs: number): string
  /** `ageMs`: the maximum age of the proof; six hours when left out. */
  isGranted(tokenId: string, grant: string, nowMs: number, ageMs?: number): boolean
  /** Of the invisible marks. */
  markKey: string
  /** Says which key that is, and nothing else about it. */
  markKeyId: string
}

export function openLinks(secret: string): Links {
  // One secret, and a separate key for each purpose: the key of the links reveals nothing about the marks.
  const keyFor = (purpose: string) => createHmac('sha256', secret).update(`watermark ${purpose}`).digest('hex')
  const linkKey = keyFor('links')
  const sign = (text: string) => createHmac('sha256', linkKey).update(text).digest('base64url')
  const isSigned = (text: string, signature: string): boolean => {
    const [right, given] = [Buffer.from(sign(text)), Buffer.from(signature)]
    return right.length === given.length && timingSafeEqual(right, given)
  }

  return {
    markKey: keyFor('marks'),
    markKeyId: keyFor('the name of marks').slice(0, 16),
    pathOf: (tokenId) => `/d/${tokenId}.${sign(tokenId)}`,
    tokenOf(link) {
      const [tokenId = '', signature = '', ...rest] = link.split('.')
      return rest.length === 0 && isSigned(tokenId, signature) ? tokenId : null
    },
    grant: (tokenId, nowMs) => `${nowMs}.${sign(`${tokenId} counted ${nowMs}`)}`,
    isGranted(tokenId, grant, nowMs, ageMs = GRANT_MS) {
      const [at = '', signature = ''] = grant.split('.')
      return Number(at) > nowMs - ageMs && isSigned(`${tokenId} counted ${at}`, signature)
    },
  }
}
