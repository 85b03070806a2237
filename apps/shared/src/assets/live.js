/** Follows the events of a page: asks for changes, and reports a lost connection. */

const GATHER_MS = 500
const ANSWER_MS_MAX = 15_000
const AGAIN_MS = 2_000
const AGAIN_MS_MAX = 30_000
const LOST = 'The connection is lost. Trying again…'

export class LivePage {
  /** Whether anything on it can still change. */
  isLive
  #options
  #stream = null
  #failedInARow = 0
  #again = 0
  #wanted = new Set()
  #isWanted = false
  #isAsking = false

  /**
   * `topics`: what to hear of. `all()`: what is shown, by its ids. `changed(changes)`: which of it to ask for after these
   * changes; null for nothing. `addressOf(ids)`: where to ask. `show(answer)`: shows it, and says whether the page is still live.
   */
  constructor({ isLive, ...options }) {
    this.isLive = isLive
    this.#options = options
  }

  get isHearing() {
    return this.#stream !== null
  }

  /** From now on, whenever somebody looks at it. */
  follow() {
    document.addEventListener('visibilitychange', () => this.#hear())
    addEventListener('online', () => this.#hear())
    this.#hear()
  }

  /** One question at a time; what is wanted meanwhile is asked for next. */
  async refresh(ids = []) {
    for (const id of ids) this.#wanted.add(id)
    this.#isWanted = true
    if (this.#isAsking) return
    this.#isAsking = true
    let isAnswered = true
    while (this.#isWanted && isAnswered) {
      this.#isWanted = false
      const asked = [...this.#wanted]
      this.#wanted.clear()
      isAnswered = await this.#ask(asked)
    }
    this.#isAsking = false
    // Otherwise a reconnect is scheduled, which asks for everything.
    if (isAnswered) this.#hear()
  }

  /** One stream for a page that is seen and can change: a browser has few connections, and people have many tabs. */
  #hear() {
    if (!this.isLive || document.hidden) return this.#unhear()
    if (this.#stream !== null) return
    clearTimeout(this.#again)
    const { topics, all, changed } = this.#options
    const query = new URLSearchParams([['every', GATHER_MS], ...topics.map((topic) => ['topic', topic])])
    this.#stream = new EventSource(`/api/events?${query}`)
    // Earlier events were missed, so the whole page is requested.
    this.#stream.addEventListener('open', () => this.refresh(all()))
    this.#stream.addEventListener('changes', ({ data }) => {
      const ids = changed(JSON.parse(data))
      if (ids !== null) void this.refresh(ids)
    })
    this.#stream.addEventListener('error', () => {
      say(LOST)
      // A browser reconnects after a broken connection, but gives up after an invalid answer.
      if (this.#stream?.readyState === EventSource.CLOSED) this.#comeBack()
    })
  }

  #unhear() {
    clearTimeout(this.#again)
    this.#stream?.close()
    this.#stream = null
  }

  #comeBack() {
    this.#unhear()
    this.#again = setTimeout(() => this.#hear(), Math.min(AGAIN_MS * 2 ** this.#failedInARow++, AGAIN_MS_MAX))
  }

  async #ask(ids) {
    const { addressOf, show } = this.#options
    try {
      const answer = await fetch(addressOf(ids), {
        headers: { accept: 'application/json' },
        signal: AbortSignal.timeout(ANSWER_MS_MAX),
      })
      if (answer.status === 401) {
        say('You are not signed in any more. Load this page again.')
        this.isLive = false
        return true
      }
      if (!answer.ok) throw new Error(`answered ${answer.status}`)
      this.isLive = show(await answer.json())
      this.#failedInARow = 0
      say('')
      return true
    } catch {
      say(LOST)
      this.#comeBack()
      return false
    }
  }
}

function say(text) {
  const box = document.getElementById('connection')
  box.textContent = text
  box.hidden = text === ''
}
