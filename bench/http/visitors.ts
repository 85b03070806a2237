import { Agent, get } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

/** What the process of the visitors is told. */
export interface Visit {
  url: string
  /** Each opens a stream from the first event on. */
  tokens: readonly string[]
  seconds: number
}

export interface Visited {
  /** How long each request for `/healthz` took. */
  tookMs: number[]
  /** Events on all streams together. */
  heard: number
}

const ASK_EVERY_MS = 5

async function visit({ url, tokens, seconds }: Visit): Promise<Visited> {
  let heard = 0
  for (const token of tokens) {
    const asked = get(`${url}/api/events?after=0`, { agent: false, headers: { authorization: `Bearer ${token}` } })
    asked.on('response', (response) => {
      if (response.statusCode !== 200) throw new Error(`a stream was answered with ${response.statusCode}`)
      response.setEncoding('latin1')
      response.on('data', (text: string) => {
        heard += text.match(/^event: /gm)?.length ?? 0
      })
    })
  }
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const tookMs: number[] = []
  for (const untilMs = performance.now() + seconds * 1_000; performance.now() < untilMs; await sleep(ASK_EVERY_MS)) {
    const askedMs = performance.now()
    await new Promise<void>((resolve, reject) => {
      get(`${url}/healthz`, { agent }, (response) => {
        response.resume()
        response.once('end', resolve)
      }).once('error', reject)
    })
    tookMs.push(performance.now() - askedMs)
  }
  return { tookMs, heard }
}

process.once('message', async (asked: Visit) => process.send?.(await visit(asked)))
