import { randomBytes } from 'node:crypto'
import type { Socket } from 'node:net'
import { type ClientOptions, openPool, type Pool, type Tx } from './client.ts'

/** The shortest time between two notifications, sent or passed on. */
const QUIET_MS = 10
/** Self-ping interval: a ping that has not come back by the next one means that LISTEN is dead. */
const BEAT_MS = 15_000
/** How often the connection is checked: the client reconnects by itself, but only once. */
const LOOK_MS = 1_000
/** The timeout after which the server counts as silent. */
const LISTEN_MS_MAX = 15_000
const AGAIN_MS = 100
const AGAIN_MS_MAX = 30_000

export interface WakeOptions {
  /** Sends the notifications. */
  sql: Pool
  /** For the one connection that only listens, beside the pool. */
  client: ClientOptions
  /** For tests. */
  beatMs?: number
}

export type Wakes = ReturnType<typeof openWakes>

/**
 * Wakes listeners when there may be work or when something was committed. Commits of this process wake them at once;
 * commits of others arrive by NOTIFY. A wake can be lost, because a process may die after its commit and a connection may be
 * dead without notice. So polling is the bound.
 *
 * NOTIFY is sent after the commit and not in it: commits with a NOTIFY wait for each other, each with its flush to disk. A
 * NOTIFY alone flushes nothing.
 */
export function openWakes({ sql, client, beatMs = BEAT_MS }: WakeOptions) {
  const channel = `${client.schema}_work`
  const me = randomBytes(9).toString('base64url')
  const workListeners = new Set<() => void>()
  const commitListeners = new Set<() => void>()
  let isStopped = false
  let listening: Listening | null = null

  const wakeHere = (): void => call(workListeners)
  const wakeHereSoon = atMostEvery(QUIET_MS, wakeHere)
  const notify = async (payload: string): Promise<boolean> => {
    try {
      await sql`SELECT pg_notify(${channel}, ${payload})`
      return true
    } catch {
      // The listeners poll. A call that reads or writes reports that the server is gone.
      return false
    }
  }
  const notifySoon = atMostEvery(QUIET_MS, () => void (isStopped || notify(me)))

  const listen = (): void => {
    if (listening !== null || isStopped) return
    listening = openListening({
      client,
      channel,
      beatMs,
      // Notifications that were sent before are lost, so there may be work.
      onConnected: wakeHereSoon.run,
      onNotification: (payload) => void (payload === me || wakeHereSoon.run()),
      isOwn: (payload) => payload === me,
      ping: () => notify(me),
    })
  }

  const wakeAll = (): void => {
    if (isStopped) return
    wakeHere()
    notifySoon.run()
  }

  return {
    onWake(listener: () => void): () => void {
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

    /** Inside a caller's transaction: its commit wakes every process, this one too. */
    async wakeIn(tx: Tx): Promise<void> {
      await tx`SELECT pg_notify(${channel}, '')`
    },

    /** Called after each commit of this process. */
    committed(hasNewWork: boolean): void {
      call(commitListeners)
      if (hasNewWork) wakeAll()
    },

    async stop(): Promise<void> {
      isStopped = true
      wakeHereSoon.stop()
      notifySoon.stop()
      await listening?.stop()
    },
  }
}

function call(listeners: ReadonlySet<() => void>): void {
  for (const listener of listeners) listener()
}

interface ListeningOptions {
  client: ClientOptions
  channel: string
  beatMs: number
  onConnected: () => void
  onNotification: (payload: string) => void
  isOwn: (payload: string) => boolean
  /** Sends a self-ping; false if it could not be sent. */
  ping: () => Promise<boolean>
}

interface Listening {
  stop(): Promise<void>
}

/**
 * One connection that listens. The client reconnects once after a connection that it saw break. But the server may be away
 * for seconds, and a connection can die without notice (a firewall that forgets it, a machine that is gone). So the socket
 * is checked, and the process pings itself. If the socket is gone or a ping does not come back, the connection is replaced,
 * with a growing backoff.
 */
function openListening(options: ListeningOptions): Listening {
  const { client, channel, beatMs, onConnected, onNotification, isOwn, ping } = options
  let pool: Pool | null = null
  let timer: NodeJS.Timeout | null = null
  let socket: Socket | null = null
  let isGone = false
  let isStopped = false
  let isAnswered = true
  let pingedMonoMs = 0
  let failures = 0

  const after = (ms: number, run: () => void): void => {
    if (isStopped) return
    timer = setTimeout(run, ms)
    // A listener does not keep its process alive.
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
    const hear = (payload: string): void => {
      if (pool !== own || isStopped) return
      if (isOwn(payload)) {
        isAnswered = true
        failures = 0
      }
      onNotification(payload)
    }
    const connected = (): void => {
      if (pool === own && !isStopped) onConnected()
    }
    try {
      await within(LISTEN_MS_MAX, own.listen(channel, hear, connected))
      pingedMonoMs = performance.now()
      after(Math.min(LOOK_MS, beatMs), () => void check())
    } catch {
      await replace()
    }
  }

  const check = async (): Promise<void> => {
    const wasGone = isGone
    isGone = socket?.destroyed === true
    if (wasGone && isGone) return replace()
    if (performance.now() - pingedMonoMs >= beatMs) {
      if (!isAnswered) return replace()
      isAnswered = false
      pingedMonoMs = performance.now()
      // A ping that could not be sent proves nothing.
      if (!(await ping())) isAnswered = true
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

/** Runs at once, and once more after the pause if it was called during the pause. */
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
