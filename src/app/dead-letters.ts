import type { LetterView } from '../core/view-letter.ts'
import type { LetterList, LetterReplayed, LettersPurged } from '../operations/dead-letters.ts'
import type { Planned } from '../operations/plan-replay.ts'
import type { ReplayActed, ReplayDetail, ReplayList } from '../operations/replays.ts'
import type { InputOf } from '../operations/table.ts'
import type { By } from '../store/store.ts'
import type { AppHost } from './host.ts'

/** Jobs set aside with payload and cause: `app.deadLetters`. */
export class DeadLetters {
  readonly #host: AppHost

  constructor(host: AppHost) {
    this.#host = host
  }

  /** By offset, the oldest first. */
  list(filter: InputOf<'dead-letters.list'> = {}): Promise<LetterList> {
    return this.#host.perform('dead-letters.list', filter)
  }

  show(offset: number): Promise<LetterView> {
    return this.#host.perform('dead-letters.show', { offset })
  }

  /** As a new job; with `input` an edited one. Once, unless `again` is said. */
  replay(offset: number, by: By & { input?: unknown; again?: boolean; dryRun?: boolean }): Promise<LetterReplayed> {
    return this.#host.perform('dead-letters.replay', { offset, ...by })
  }

  /** For good. The jobs stay failed, with their history. */
  purge(selection: InputOf<'dead-letters.purge'> & By): Promise<LettersPurged> {
    return this.#host.perform('dead-letters.purge', selection)
  }
}

/** The replay of many dead letters as a thing of its own, done by whatever workers there are: `app.replays`. */
export class Replays {
  readonly #host: AppHost

  constructor(host: AppHost) {
    this.#host = host
  }

  /** Freezes a selection and says what would become of it. Nothing runs until it is started. */
  plan(selection: InputOf<'replays.plan'> & By): Promise<Planned> {
    return this.#host.perform('replays.plan', selection)
  }

  start(id: string, by: By): Promise<ReplayActed> {
    return this.#host.perform('replays.start', { id, ...by })
  }

  pause(id: string, by: By): Promise<ReplayActed> {
    return this.#host.perform('replays.pause', { id, ...by })
  }

  /** Also one that its canary stopped: then the rest goes without it. */
  resume(id: string, by: By): Promise<ReplayActed> {
    return this.#host.perform('replays.resume', { id, ...by })
  }

  abort(id: string, by: By): Promise<ReplayActed> {
    return this.#host.perform('replays.abort', { id, ...by })
  }

  list(filter: InputOf<'replays.list'> = {}): Promise<ReplayList> {
    return this.#host.perform('replays.list', filter)
  }

  show(id: string, page: Omit<InputOf<'replays.show'>, 'id'> = {}): Promise<ReplayDetail> {
    return this.#host.perform('replays.show', { id, ...page })
  }
}
