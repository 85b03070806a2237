import { request } from 'undici'
import type { App } from '../../../packages/redress/src/app/app.ts'

// biome-ignore lint/suspicious/noExplicitAny: what a route answers is what the tests look into
export type Shown = any

export interface Answer {
  status: number
  headers: Headers
  json: Shown
  text: string
}

/** Somebody who asks the server of an app. */
export class Client {
  readonly #url: string
  readonly #token: string | null

  constructor(url: string, token: string | null) {
    this.#url = url
    this.#token = token
  }

  fetch(path: string, init: RequestInit = {}): Promise<Response> {
    return fetch(this.#url + path, {
      redirect: 'manual',
      ...init,
      headers: { ...(this.#token !== null && { authorization: `Bearer ${this.#token}` }), ...init.headers },
    })
  }

  async ask(path: string, init: RequestInit = {}): Promise<Answer> {
    const answer = await this.fetch(path, init)
    const { status, headers } = answer
    const text = await answer.text()
    const isJson = headers.get('content-type')?.startsWith('application/json') ?? false
    return { status, headers, text, json: isJson && text !== '' ? JSON.parse(text) : null }
  }

  /** The bytes as they were sent: `fetch` would unpack them. */
  async raw(path: string, headers: Record<string, string> = {}) {
    const authorization = this.#token === null ? {} : { authorization: `Bearer ${this.#token}` }
    const answer = await request(this.#url + path, { headers: { ...authorization, ...headers } })
    return { status: answer.statusCode, headers: answer.headers, body: Buffer.from(await answer.body.arrayBuffer()) }
  }

  get(path: string, headers: Record<string, string> = {}): Promise<Answer> {
    return this.ask(path, { headers })
  }

  post(path: string, body: object = {}, headers: Record<string, string> = {}): Promise<Answer> {
    const json = { 'content-type': 'application/json', ...headers }
    return this.ask(path, { method: 'POST', body: JSON.stringify(body), headers: json })
  }
}

/** Two owners, ann and bob, and somebody of each role that looks after others: the token of each by name. */
export async function tokensOfEverybody(app: App): Promise<Readonly<Record<string, string>>> {
  const tokens: Record<string, string> = {}
  const by = { actor: 'olga' }
  for (const name of ['ann', 'bob']) {
    await app.perform('accounts.create', { name, email: `${name}@example.org`, ...by })
    const made = await app.perform('tokens.create', { name, role: 'owner', account: name, ...by })
    tokens[name] = String(made.token)
  }
  for (const role of ['viewer', 'operator'] as const) {
    tokens[role] = String((await app.perform('tokens.create', { name: role, role, ...by })).token)
  }
  return tokens
}
