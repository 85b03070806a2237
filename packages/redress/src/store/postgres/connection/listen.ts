import { randomBytes } from 'node:crypto'
import type { Socket } from 'node:net'
import { type ClientOptions, openPool, type Pool, type Tx } from './client.ts'

/** So often, at most, others are told of new work, and listeners of what others tell. */
const QUIET_MS = 10
/** So often we send ourselves a word; one that has not come back by the next time means that we are deaf. */
const BEAT_MS = 15_000
/** So often we look whether the connection is still there: the client takes it up again, but only once. */
const LOOK_MS = 1_000
/** The timeout after which the server counts as silent. */
const LISTEN_MS_MAX = 15_000
const AGAIN_MS = 100
const AGAIN_MS_MAX = 30_000

export interface WakeOptions {
  /** Sends. */
  sql: Pool
  /** Of the one connection that only listens, beside the pool. */
  client: ClientOptions
  /** For tests. */
  beatMs?: number
}

export type Wakes = ReturnType<typeof openWakes>

/**
 * Who wants to know that there may be work, and that something was committed. What this process commits is told at
 * once; what others commit comes by NOTIFY. Words get lost (between the commit and the word a process may die, a
 * connection may be gone and not know it), so polling is the bound.
 *
 * The word is sent after the commit and not in it: NOTIFY makes all commits that hold one wait for each other, each
 * with its flush to disk. Alone it flushes nothing.
 */
export function openWakes({ sql, client, beatMs = BEAT_MS }: WakeOptions) {
  const channel = `${client.schema}_work`
  const me = randomBytes(9).toString('base64url')
  const workListeners = new Set<() => void>()
  const commitListeners = new Set<() => void>()
  let isStopped = false
  let ear: Ear | null = null

  const wake = (): void => call(workListeners)
  const wakeSoon = atMostEvery(QUIET_MS, wake)
  const tell = async (word: string): Promise<boolean> => {
    try {
      await sql`SELECT pg_notify(${channel}, ${word})`
      return true
    } catch {
      // Whoever waits for it polls; and that the server is gone is noticed by those who have something to lose.
      return false
    }
  }
  const tellSoon = atMostEvery(QUIET_MS, () => void (isStopped || tell(me)))

  const listen = (): void => {
    if (ear !== null || isStopped) return
    ear = openEar({
      client,
      channel,
      beatMs,
      // What was said while nobody listened is lost, so there may be something.
      onHearing: wakeSoon.run,
      onWord: (word) => void (word === me || wakeSoon.run()),
      isOwn: (word) => word === me,
      beat: () => tell(me),
    })
  }

  const wakeAll = (): void => {
    if (isStopped) return
    wake()
    tellSoon.run()
  }

  return {
    onWork(listener: () => void): () => void {
      const one = () => listener()
      workListeners.add(one)
      listen()
      return () => void workListeners.delete(one)
    },

    onCommit(listener: () => void): () => void {
      const one = () => listener()
      commitListeners.add(one)
      return () => void commitListeners.delete(one)
    },

    wakeAll,

    /** In the transaction of somebody else, who commits it: then all are told, this process too. */
    async tellIn(tx: Tx): Promise<void> {
      await tx`SELECT pg_notify(${channel}, '')`
    },

    /** Called after each commit of this process. */
    committed(hasNewWork: boolean): void {
      call(commitListeners)
      if (hasNewWork) wakeAll()
    },

    async stop(): Promise<void> {
      isStopped = true
      wakeSoon.stop()
      tellSoon.stop()
      await ear?.stop()
    },
  }
}

function call(listeners: ReadonlySet<() => void>): void {
  for (const listener of listeners) listener()
}

interface EarOptions {
  client: ClientOptions
  channel: string
  beatMs: number
  onHearing: () => void
  onWord: (word: string) => void
  isOwn: (word: string) => boolean
  /** Sends our own word; false when it could not be sent. */
  beat: () => Promise<boolean>
}

interface Ear {
  stop(): Promise<void>
}

/**
 * One connection that listens. The client takes up again what breaks off in its sight, if the server is there; but it
 * may be away for seconds, and a connection can die unseen (a firewall that forgets it, a machine that is gone). So we
 * look whether there is one, and send words to ourselves: when one does not come back, or nobody is there, the
 * connection is replaced, after waits that grow.
 */
function openEar({ client, channel, beatMs, onHearing, onWord, isOwn, beat }: EarOptions): Ear {
  let pool: Pool | null = null
  let timer: NodeJS.Timeout | null = null
  let socket: Socket | null = null
  let isGone = false
  let isStopped = false
  let isAnswered = true
  let beatenMonoMs = 0
  let failures = 0

  const after = (ms: number, run: () => void): void => {
    if (isStopped) return
    timer = setTimeout(run, ms)
    // Whoever only listens does not keep a process alive.
    timer.unref()
  }

  const open = async (): Promise<void> => {
    const onSocket = (made: Socket): void => {
      socket = made
    }
    const own = openPool({ ...client, connectionsMax: 1, onSocket })
    pool = own
    isAnswered = true
    isGone = false
    const hear = (word: string): void => {
      if (pool !== own || isStopped) return
      if (isOwn(word)) {
        isAnswered = true
        failures = 0
      }
      onWord(word)
    }
    const hearing = (): void => {
      if (pool === own && !isStopped) onHearing()
    }
    try {
      await within(LISTEN_MS_MAX, own.listen(channel, hear, hearing))
      beatenMonoMs = performance.now()
      after(Math.min(LOOK_MS, beatMs), () => void check())
    } catch {
      await replace()
    }
  }

  const check = async (): Promise<void> => {
    const wasGone = isGone
    isGone = socket?.destroyed === true
    if (wasGone && isGone) return replace()
    if (performance.now() - beatenMonoMs >= beatMs) {
      if (!isAnswered) return replace()
      isAnswered = false
      beatenMonoMs = performance.now()
      // One that could not be sent proves nothing.
      if (!(await beat())) isAnswered = true
    }
    after(Math.min(LOOK_MS, beatMs), () => void check())
  }

  const replace = async (): Promise<void> => {
    const old = pool
    pool = null
    const waitMs = Math.min(AGAIN_MS * 2 ** failures++, AGAIN_MS_MAX)
    await old?.end({ timeout: 1 }).catch(() => undefined)
    after(waitMs, () => void open())
  }

  void open()
  return {
    async stop() {
      isStopped = true
      if (timer !== null) clearTimeout(timer)
      await pool?.end({ timeout: 1 }).catch(() => undefined)
    },
  }
}

async function within<T>(ms: number, asked: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms)
    timer.unref()
  })
  try {
    return await Promise.race([asked, late])
  } finally {
    clearTimeout(timer)
    asked.catch(() => undefined)
  }
}

/** Runs at once, and once more at the end of the pause when it was asked for within it. */
function atMostEvery(pauseMs: number, run: () => void): { run(): void; stop(): void } {
  let timer: NodeJS.Timeout | null = null
  let isAskedAgain = false
  let isStopped = false
  const now = (): void => {
    isAskedAgain = false
    timer = setTimeout(() => {
      timer = null
      if (isAskedAgain) now()
    }, pauseMs)
    timer.unref()
    run()
  }
  return {
    run: () => {
      if (isStopped) return
      if (timer === null) now()
      else isAskedAgain = true
    },
    stop: () => {
      isStopped = true
      if (timer !== null) clearTimeout(timer)
    },
  }
}
